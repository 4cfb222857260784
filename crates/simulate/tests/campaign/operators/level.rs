//! What the operators with a `Controller` share.

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_controller::{Informers, Watchable};
use windlass_simulate::{EndState, Process};

/// Checks the informers of one kind at the end.
pub(crate) fn observe<K: Watchable>(process: &Process, informers: &Informers<K>) {
    for informer in informers.informers() {
        process.observe(&informer);
    }
}

/// The entries of a config map, in order, as a site shows them.
pub(crate) fn entries<'a>(configs: impl IntoIterator<Item = &'a ConfigMap>) -> String {
    let data = configs
        .into_iter()
        .flat_map(|config| config.data.iter().flatten());
    let mut entries: Vec<_> = data
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    entries.sort();
    entries.join(" ")
}

/// Each site shows what `expected` returns for its name and page: a bug that also occurs without
/// faults is no difference between two runs.
pub(crate) fn each_site_shows(
    end: &EndState,
    expected: impl Fn(&str, &str) -> String,
) -> Result<(), String> {
    for site in end.objects("sites.simulate.windlass.dev") {
        let text = |path: &str| site.pointer(path).and_then(|it| it.as_str()).unwrap_or("");
        let (name, page) = (text("/metadata/name"), text("/spec/page"));
        let (shown, expected) = (text("/status/published"), expected(name, page));
        if shown != expected {
            return Err(format!("{name} shows {shown:?}, not {expected:?}"));
        }
    }
    Ok(())
}
