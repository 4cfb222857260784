//! What the compiler says about wrong programs: it names the mistake, and what to write.

use crate::readme::Reader;

/// A program with one mistake, and what the compiler has to say.
struct Wrong {
    name: &'static str,
    program: &'static str,
    says: &'static [&'static str],
}

const PROGRAMS: [Wrong; 5] = [
    Wrong {
        name: "child_that_is_not_owned",
        program: r"
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use windlass::prelude::*;

async fn reconcile(secrets: &Owned<ConfigMap, Secret>, cx: Context<ConfigMap>) {
    _ = secrets.apply(&cx, ConfigMap::default()).await;
}

fn main() {
    _ = reconcile;
}
",
        says: &[
            "`ConfigMap` is not a desired `Secret`",
            "which `builder.owns(Watch::<Kind>::all())` returns",
        ],
    },
    Wrong {
        name: "mapper_of_another_kind",
        program: r#"
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use windlass::{ObjectKey, prelude::*};

fn build(client: kube::Client) {
    let mut configs = Controller::<ConfigMap>::builder(client, Watch::all());
    configs.watches(Watch::<Secret>::all(), |_: &Pod| Some(ObjectKey::new("web")));
}

fn main() {
    _ = build;
}
"#,
        says: &[
            "expected closure signature `for<'a> fn(&'a Secret) -> _`",
            "to implement `windlass::Mapper<Secret>`",
        ],
    },
    Wrong {
        name: "closure_of_another_kind",
        program: r"
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use windlass::prelude::*;

fn build(client: kube::Client) {
    let configs = Controller::<ConfigMap>::builder(client, Watch::all());
    _ = configs.build(|_: Context<Pod>| async { Ok::<_, Failure>(Outcome::done()) });
}

fn main() {
    _ = build;
}
",
        says: &[
            "expected closure signature `fn(windlass::Context<ConfigMap>) -> _`",
            "to implement `ObjectReconciler<ConfigMap>`",
        ],
    },
    Wrong {
        name: "predicate_without_a_type",
        program: r#"
use k8s_openapi::api::core::v1::ConfigMap;
use windlass::prelude::*;

fn build() -> Result<(), Box<dyn std::error::Error>> {
    let controller = windlass::InformerController::new();
    let configs = controller.kind::<ConfigMap>("configs")?;
    let publish = |_: windlass::Request<ConfigMap>| async { Ok::<_, Failure>(Outcome::done()) };
    controller.add_reconciler(&configs, windlass::Reconciler::filter(publish, |_| true))?;
    Ok(())
}

fn main() {
    _ = build;
}
"#,
        says: &["a predicate that is a closure names the type of its argument: `|event: &Event<"],
    },
    Wrong {
        name: "future_that_is_not_send",
        program: r"
use std::rc::Rc;

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::prelude::*;

fn build(client: kube::Client) {
    let configs = Controller::<ConfigMap>::builder(client, Watch::all());
    _ = configs.build(|_: Context<ConfigMap>| async {
        let count = Rc::new(1);
        std::future::ready(()).await;
        drop(count);
        Ok::<_, Failure>(Outcome::done())
    });
}

fn main() {
    _ = build;
}
",
        says: &[
            "future cannot be sent between threads safely",
            "has type `Rc<i32>` which is not `Send`",
        ],
    },
];

#[test]
fn the_compiler_says_what_to_write() {
    let reader = Reader::new("messages");
    reader.write("src/main.rs", "fn main() {}");
    for wrong in PROGRAMS {
        let program = wrong.program;
        reader.write(&format!("src/bin/{}.rs", wrong.name), program);
    }
    let (_, errors) = reader.check();
    for wrong in PROGRAMS {
        let end = format!("error: could not compile `reader` (bin \"{}\")", wrong.name);
        assert!(errors.contains(&end), "{} compiles:\n{errors}", wrong.name);
        for text in wrong.says {
            assert!(
                errors.contains(text),
                "{}: {text} is not in:\n{errors}",
                wrong.name
            );
        }
    }
}
