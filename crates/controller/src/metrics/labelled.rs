//! Adds a label to a collector.

use std::collections::HashMap;

use prometheus::{
    core::{Collector, Desc},
    proto::{LabelPair, MetricFamily},
};

/// A collector with one more label of a constant value, so that several controllers can use one
/// registry.
pub(crate) struct Labelled {
    wrapped: Box<dyn Collector>,
    descs: Vec<Desc>,
    name: &'static str,
    value: String,
    /// Called before each collection.
    refresh: Box<dyn Fn() + Send + Sync>,
}

// === impl Labelled ===

impl Labelled {
    /// Adds `name="value"` to the metrics of `wrapped`. `refresh` is called before each collection.
    ///
    /// # Errors
    ///
    /// [`prometheus::Error::Msg`] if a metric of `wrapped` has this label already.
    pub(crate) fn new(
        wrapped: Box<dyn Collector>,
        name: &'static str,
        value: &str,
        refresh: impl Fn() + Send + Sync + 'static,
    ) -> prometheus::Result<Self> {
        let relabel = |desc: &&Desc| {
            let constants = desc.const_label_pairs.iter().map(LabelPair::name);
            let mut labels = constants.chain(desc.variable_labels.iter().map(String::as_str));
            if labels.any(|label| label == name) {
                let collector = &desc.fq_name;
                let text = format!("{collector} already has the label {name}");
                return Err(prometheus::Error::Msg(text));
            }
            let mut labels: HashMap<String, String> = (desc.const_label_pairs.iter())
                .map(|pair| (pair.name().to_owned(), pair.value().to_owned()))
                .collect();
            labels.insert(name.to_owned(), value.to_owned());
            Desc::new(
                desc.fq_name.clone(),
                desc.help.clone(),
                desc.variable_labels.clone(),
                labels,
            )
        };
        Ok(Self {
            descs: wrapped
                .desc()
                .iter()
                .map(relabel)
                .collect::<Result<_, _>>()?,
            wrapped,
            name,
            value: value.to_owned(),
            refresh: Box::new(refresh),
        })
    }
}

impl Collector for Labelled {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        (self.refresh)();
        let mut families = self.wrapped.collect();
        for metric in families.iter_mut().flat_map(MetricFamily::mut_metric) {
            let mut pair = LabelPair::default();
            pair.set_name(self.name.to_owned());
            pair.set_value(self.value.clone());
            let mut labels = metric.take_label();
            labels.push(pair);
            // Like the labels of all collectors.
            labels.sort_by(|one, other| one.name().cmp(other.name()));
            metric.set_label(labels);
        }
        families
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{IntGauge, IntGaugeVec, Opts};

    use super::*;

    /// Otherwise its metrics would have the label twice, which a registry does not notice.
    #[test]
    fn a_collector_that_has_the_label_is_refused_and_named() {
        let opts = Opts::new("depth", "The depth.");
        let variable = IntGaugeVec::new(opts.clone(), &["controller"]).expect("valid");
        let constant = IntGauge::with_opts(opts.const_label("controller", "b")).expect("valid");
        for collector in [Box::new(variable) as Box<dyn Collector>, Box::new(constant)] {
            let labelled = Labelled::new(collector, "controller", "a", || {});
            let refused = labelled.err().expect("it has the label").to_string();
            assert!(
                refused.contains("depth") && refused.contains("controller"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_collector_without_the_label_gets_it_among_its_own() {
        let opts = Opts::new("depth", "The depth.").const_label("a", "1");
        let gauge = IntGaugeVec::new(opts, &["kind"]).expect("valid");
        gauge.with_label_values(&["pods"]).set(3);
        let labelled = Labelled::new(Box::new(gauge), "controller", "main", || {});
        let families = labelled.expect("it lacks the label").collect();
        let labels: Vec<_> = families[0].get_metric()[0]
            .get_label()
            .iter()
            .map(|label| format!("{}={}", label.name(), label.value()))
            .collect();
        assert_eq!(labels, ["a=1", "controller=main", "kind=pods"]);
    }
}
