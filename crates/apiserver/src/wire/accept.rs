//! In which form the client wants its answer. *(pure)*

use crate::status::Status;
use crate::table::IncludeObject;

use super::Query;

/// What a client accepts, in its order of preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accept {
    ranges: Vec<MediaRange>,
}

/// The form in which objects are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presentation {
    /// Whole.
    Object,
    /// `metadata` alone.
    Metadata,
    /// As rows for a terminal.
    Table(IncludeObject),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MediaRange {
    essence: String,
    parameters: Vec<(String, String)>,
}

// === impl Accept ===

impl Accept {
    /// Reads the values of the `Accept` headers; no header accepts anything.
    pub(crate) fn parse<'a>(headers: impl Iterator<Item = &'a str>) -> Self {
        let ranges = headers
            .flat_map(|header| header.split(','))
            .filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let essence = parts.next().filter(|essence| !essence.is_empty())?;
                let parameters = parts
                    .filter_map(|part| part.split_once('='))
                    .map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned()))
                    .collect();
                Some(MediaRange {
                    essence: essence.to_ascii_lowercase(),
                    parameters,
                })
            })
            .collect();
        Self { ranges }
    }

    /// The form for the answer to a get, list or watch.
    ///
    /// # Errors
    ///
    /// 406 if nothing that is accepted can be sent.
    pub(crate) fn presentation(&self, query: &Query, list: bool) -> Result<Presentation, Status> {
        if self.ranges.is_empty() {
            return Ok(Presentation::Object);
        }
        for range in self.ranges.iter().filter(|range| range.is_json()) {
            let meta = range.get("g") == "meta.k8s.io" && range.get("v") == "v1";
            match range.get("as") {
                "" => return Ok(Presentation::Object),
                "Table" if meta => return Ok(Presentation::Table(include_object(query))),
                "PartialObjectMetadata" if meta && !list => return Ok(Presentation::Metadata),
                "PartialObjectMetadataList" if meta && list => return Ok(Presentation::Metadata),
                _ => {}
            }
        }
        Err(Status::not_acceptable())
    }

    /// Whether the aggregated discovery document is preferred to the old one.
    pub(crate) fn prefers_aggregated_discovery(&self) -> bool {
        let first = self.ranges.iter().find(|range| {
            // A document of another version is not what we have: the next one, then.
            range.is_json() && matches!((range.get("as"), range.get("v")), ("", _) | (_, "v2"))
        });
        first.is_some_and(|range| {
            range.get("g") == "apidiscovery.k8s.io" && range.get("as") == "APIGroupDiscoveryList"
        })
    }
}

// === impl MediaRange ===

impl MediaRange {
    fn is_json(&self) -> bool {
        matches!(
            self.essence.as_str(),
            "application/json" | "application/*" | "*/*"
        )
    }

    fn get(&self, key: &str) -> &str {
        self.parameters
            .iter()
            .find(|(parameter, _)| parameter == key)
            .map_or("", |(_, value)| value.as_str())
    }
}

fn include_object(query: &Query) -> IncludeObject {
    match query.get("includeObject") {
        "None" => IncludeObject::None,
        "Object" => IncludeObject::Object,
        _ => IncludeObject::Metadata,
    }
}

#[cfg(test)]
mod tests {
    use super::{Accept, IncludeObject, Presentation, Query};

    #[test]
    fn the_first_form_that_can_be_sent_is_sent() {
        let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let metadata_list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                       application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        for (header, list, expected) in [
            ("application/json", true, Some(Presentation::Object)),
            ("*/*", true, Some(Presentation::Object)),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                true,
                Some(Presentation::Object),
            ),
            (
                kubectl,
                true,
                Some(Presentation::Table(IncludeObject::Metadata)),
            ),
            (metadata, false, Some(Presentation::Metadata)),
            (metadata_list, true, Some(Presentation::Metadata)),
            (metadata, true, None),
            ("application/vnd.kubernetes.protobuf", true, None),
        ] {
            let accept = Accept::parse([header].into_iter());
            assert_eq!(
                accept.presentation(&Query::default(), list).ok(),
                expected,
                "{header}"
            );
        }
        let accept = Accept::parse(std::iter::empty());
        assert_eq!(
            accept.presentation(&Query::default(), true),
            Ok(Presentation::Object)
        );
    }
}
