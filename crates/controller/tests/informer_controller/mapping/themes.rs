//! Themes and the sites that use them: a change of a theme affects sites.

use std::ops::Deref;

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_controller::{InformerControllerBuilder, Kind, Mapper, Registration};
use windlass_informer::{Informer, ObjectKey, Script, Scripted};

use crate::support::{Rig, Running, config, settle};

/// The kind whose changes concern objects of [`KIND`].
pub(super) const THEMES: &str = "themes";

/// The kind of themes, and the script of its informer.
pub(super) struct Themes {
    pub(super) kind: Kind<ConfigMap>,
    pub(super) informer: Informer<ConfigMap>,
    script: Script<ConfigMap>,
}

impl Deref for Themes {
    type Target = Script<ConfigMap>;

    fn deref(&self) -> &Script<ConfigMap> {
        &self.script
    }
}

/// A theme names the site whose number is its value.
pub(super) fn used_by(theme: &ConfigMap) -> Option<ObjectKey> {
    let number = &theme.data.as_ref()?["value"];
    Some(ObjectKey::new(format!("site-{number}")).within("shop"))
}

/// A controller with an informer of themes too.
pub(super) fn rig(builder: InformerControllerBuilder) -> (Rig, Themes) {
    let rig = Rig::new(builder);
    let (script, source) = Scripted::new();
    let themes = Informer::new(source);
    let kind = rig.controller.kind(THEMES).expect("a new kind");
    rig.controller
        .add_informer(&kind, &themes)
        .expect("another informer");
    let themes = Themes {
        kind,
        informer: themes,
        script,
    };
    (rig, themes)
}

pub(super) fn map(
    rig: &Rig,
    themes: &Kind<ConfigMap>,
    mapper: impl Mapper<ConfigMap>,
) -> Registration {
    let added = rig.controller.add_mapper(themes, &rig.kind, mapper);
    added.expect("both kinds are there")
}

pub(super) async fn start(rig: Rig, themes: &Themes) -> Running {
    let running = rig.start_empty().await;
    themes.list([]).await.expect("it runs");
    settle().await;
    running
}

/// A controller that runs, with a reconciler, a mapper, and the sites 1 to 3.
pub(super) async fn sites(
    builder: InformerControllerBuilder,
    mapper: impl Mapper<ConfigMap>,
) -> (Running, Themes) {
    let (rig, themes) = rig(builder);
    rig.reconcile(rig.log.reconciler("r"));
    map(&rig, &themes.kind, mapper);
    let running = start(rig, &themes).await;
    for site in 1..=3 {
        running.apply(config(&format!("site-{site}"), 0)).await;
    }
    running.logged().await;
    (running, themes)
}

/// The numbers of the sites that were resynced.
pub(super) fn sorted(logged: &str) -> Vec<u32> {
    let sites = logged.split(", ").filter(|line| !line.is_empty());
    let mut sites: Vec<_> = sites
        .map(|line| {
            let number = line.strip_prefix("r resynced site-").expect(line);
            let number = number.split('=').next().expect("a part");
            number.parse().expect("a number")
        })
        .collect();
    sites.sort_unstable();
    sites
}
