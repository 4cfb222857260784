//! The stored form of objects: JSON, and decoded while they are read often.

use std::sync::{Arc, Weak};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use windlass_informer::{ListWatch, ObjectIdentity as _, ObjectKey, RawObject};

use crate::{
    server::{Answer, Server},
    text::{END, added, deleted, list, modified},
    wire::Wire,
};

/// A watch that is silent ends after three minutes, and the server is asked for its version,
/// so that this number of requests takes a quarter of an hour.
const QUARTER: usize = 10;

/// To be read once is to be decoded once; to be read again within five minutes is to stay
/// decoded until five minutes go by without that.
///
/// Rows: BO-45
#[tokio::test(start_paused = true)]
async fn what_is_read_again_and_again_stays_decoded_until_it_is_not() {
    let wire = many([]).await;
    let read_once = wire.read("o-0");
    wire.read_others();
    assert!(read_once.upgrade().is_none(), "it is not read again");

    let often = wire.read("o-0");
    wire.read_others();
    let again = often.upgrade().expect("it was read twice");
    assert!(Arc::ptr_eq(&again, &wire.get("o-0")));
    drop(again);

    let requests = wire.server.requests().len();
    wire.requests(requests + QUARTER).await;
    assert!(often.upgrade().is_none(), "it was not read for long");
    assert_eq!(value(&wire.get("o-0")), "1", "it is still there");

    // While it is read, it stays.
    wire.read("o-0");
    let often = wire.read("o-0");
    for _ in 0..QUARTER {
        let requests = wire.server.requests().len();
        wire.requests(requests + 1).await;
        assert!(often.ptr_eq(&wire.read("o-0")));
    }
}

/// Rows: BO-45
#[tokio::test(start_paused = true)]
async fn a_later_state_of_what_is_read_often_stays_decoded_too() {
    let updates = [modified("o-0", 1000, "2"), modified("o-1", 1001, "2")];
    let version = Answer::json(200, &list("999", &[]));
    let mut wire = many([version, Answer::lines(updates).then_hang()]).await;
    for _ in 0..2 {
        wire.read("o-0");
    }
    assert_eq!(wire.told(2).await, ["updated o-0", "updated o-1"]);
    let (often, seldom) = (wire.read("o-0"), wire.read("o-1"));
    wire.read_others();
    let often = often.upgrade().expect("it was read often before");
    assert_eq!(value(&often), "2");
    assert!(seldom.upgrade().is_none());
}

/// Rows: BO-45
#[tokio::test(start_paused = true)]
async fn what_is_to_stay_decoded_does() {
    let server = Server::new([Answer::lines(first_list(MANY)).then_hang_for_good()]);
    let api = Api::<ConfigMap>::default_namespaced(Client::new(server.clone(), "default"));
    let mut wire = Wire::run(ListWatch::new(api).decoded(), server);
    wire.told(MANY + 1).await;
    let read_once = wire.read("o-0");
    wire.read_others();
    assert!(read_once.upgrade().is_some());
}

/// Who an object is, and its labels and owners, can be had for nothing.
#[tokio::test(start_paused = true)]
async fn to_look_at_what_is_kept_decodes_nothing() {
    let wire = many([]).await;
    let store = wire.informer.store();
    let kept = store.list_lazy();
    assert_eq!(kept.len(), MANY);
    for object in &kept {
        assert_eq!(object.uid(), Some(&*format!("uid-{}", object.name())));
        assert_eq!(object.metadata().name.as_deref(), Some(object.name()));
    }
    let one = store.get_lazy(&key("o-0")).expect("there");
    let read = wire.read("o-0");
    assert!(read.ptr_eq(&Arc::downgrade(&one.get().expect("it has decoded"))));
    assert!(store.get_lazy(&key("absent")).is_none());
}

/// The last state of an object whose delete no watch showed is the one that was kept.
#[tokio::test(start_paused = true)]
async fn what_is_gone_is_told_as_it_was_kept() {
    let mut wire = Wire::start([
        Answer::lines([added("a", 1, "7"), added("b", 2, "8"), END.to_owned()]),
        Answer::lines([deleted("a", 11), crate::text::error(410, "Expired")]),
        Answer::lines([END.replace("10", "20")]).then_hang(),
    ]);
    assert_eq!(wire.told(3).await, ["added a", "added b", "synced"]);
    assert_eq!(wire.told(2).await, ["deleted a", "missed b"]);
}

/// More than are remembered because they were decoded not long ago.
const MANY: usize = 2 * RawObject::<ConfigMap>::RECENT;

/// Many objects; and when the watch has been silent for too long, `then`.
async fn many(then: impl IntoIterator<Item = Answer>) -> Wire {
    let first = Answer::lines(first_list(MANY)).then_hang();
    let server = Server::new(std::iter::once(first).chain(then)).otherwise(|asked| {
        if asked.contains("watch=true") {
            Answer::lines([]).then_hang()
        } else {
            Answer::json(200, &list("999", &[]))
        }
    });
    let mut wire = Wire::of(Client::new(server.clone(), "default"), server);
    wire.told(MANY + 1).await;
    wire
}

fn first_list(objects: usize) -> Vec<String> {
    let objects = (0..objects).map(|number| added(&format!("o-{number}"), number + 1, "1"));
    objects.chain([END.replace("10", "999")]).collect()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).within("default")
}

impl Wire {
    fn get(&self, name: &str) -> Arc<ConfigMap> {
        let object = self.informer.store().get(&key(name));
        object.expect("it was delivered")
    }

    /// Reads an object, and keeps nothing of it.
    fn read(&self, name: &str) -> Weak<ConfigMap> {
        Arc::downgrade(&self.get(name))
    }

    /// Reads all others, so that it is not for having been decoded lately that an object is
    /// remembered.
    fn read_others(&self) {
        for number in 2..MANY {
            self.read(&format!("o-{number}"));
        }
    }
}

fn value(object: &ConfigMap) -> &str {
    &object.data.as_ref().expect("each has data")["value"]
}
