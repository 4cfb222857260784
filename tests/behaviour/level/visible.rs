//! Own writes that the watch shows late.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use tokio::sync::mpsc;
use windlass::{Context, Desired, Failure, Informer, Outcome, Watch, source::Scripted};

use super::rig::{Rig, builder, create, patch, say};
use crate::kinds::{config, value};

on_both_servers! {
    /// Rows: BO-06, BO-47
    async fn a_call_waits_until_the_write_of_an_earlier_one_is_visible_or_the_time_is_over(cluster: Cluster) {
        let (configs, secrets) = (cluster.api_aside::<ConfigMap>(), cluster.api_aside::<Secret>());
        for (name, timeout) in [("seen", Duration::from_secs(60)), ("unseen", Duration::from_millis(500))] {
            // A watch that shows what the test says.
            let (script, source) = Scripted::<Secret>::new();
            let informer = Informer::new(source);
            let builder = builder::<ConfigMap>(&cluster).await;
            let mut builder = builder.name(name).own_write_timeout(timeout);
            let children = builder.owns(Watch::from(&informer));
            let (sender, receiver) = mpsc::channel(64);
            let reconciler = move |cx: Context<ConfigMap>| {
                let (children, sender) = (children.clone(), sender.clone());
                async move {
                    if cx.key().name() != name {
                        return Ok(Outcome::done());
                    }
                    let (before, stale) = (children.of(&cx).len(), cx.is_stale());
                    if before == 0 && !stale {
                        children.apply(&cx, Desired::json(json!({}))).await?;
                    }
                    let after = children.of(&cx).len();
                    say(&sender, format!("{} {before} {after} stale={stale}", value(cx.object()))).await;
                    Ok::<_, Failure>(Outcome::done())
                }
            };
            let mut rig = Rig::start(builder.build(reconciler).expect("good settings"), receiver);
            script.list([]).await.expect("it runs");
            create(&configs, config(name, "1")).await;
            assert_eq!(rig.next().await, "1 0 1 stale=false", "the call reads its own write");
            patch(&configs, name, json!({ "data": { "value": "2" } })).await;
            if name == "seen" {
                let early = tokio::time::timeout(Duration::from_millis(300), rig.next()).await;
                assert!(early.is_err(), "{early:?}, before the child was visible");
                let child = secrets.get(name).await.expect("applied");
                script.apply(child).await.expect("it runs");
                assert_eq!(rig.next().await, "2 1 1 stale=false");
            } else {
                assert_eq!(rig.next().await, "2 0 0 stale=true");
            }
            rig.stop().await;
        }
    }
}
