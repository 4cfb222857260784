//! Content negotiation: the form of the response that the client accepts. *(pure)*

use crate::status::Status;
use crate::table::IncludeObject;

use super::Query;

/// What a client accepts, in its order of preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accept {
    ranges: Vec<MediaRange>,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) presentation: Presentation,
    pub(crate) encoding: Encoding,
}

/// In which bytes an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    /// Not of watches.
    Yaml,
    Protobuf {
        /// Whether JSON is accepted too, for an object that has no protobuf form.
        or_json: bool,
    },
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
        let mut ranges: Vec<_> = headers
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
        // Stable: of two that are worth the same, the first.
        ranges.sort_by_key(|range: &MediaRange| std::cmp::Reverse(range.quality()));
        Self { ranges }
    }

    /// How the answer to a get, list or watch is written.
    ///
    /// `typed` says whether whole objects have a protobuf form: those of built-in kinds have
    /// one, and custom resources have not. The metadata of all objects has one, tables have
    /// not.
    ///
    /// # Errors
    ///
    /// 406 if nothing that is accepted can be sent.
    pub(crate) fn format(&self, query: &Query, list: bool, typed: bool) -> Result<Format, Status> {
        if self.ranges.is_empty() {
            return Ok(Format::JSON);
        }
        for (at, range) in self.ranges.iter().enumerate() {
            let Some(presentation) = range.presentation(query, list) else {
                continue;
            };
            let text = if range.is_json() {
                Some(Encoding::Json)
            } else {
                range.is_yaml().then_some(Encoding::Yaml)
            };
            if let Some(encoding) = text {
                return Ok(Format {
                    presentation,
                    encoding,
                });
            }
            let has_protobuf = match presentation {
                Presentation::Object => typed,
                Presentation::Metadata => true,
                Presentation::Table(_) => false,
            };
            if range.is_protobuf() && has_protobuf {
                let mut others = self.ranges.iter().skip(at + 1);
                let or_json = others.any(|other| {
                    other.is_json() && other.presentation(query, list) == Some(presentation)
                });
                return Ok(Format {
                    presentation,
                    encoding: Encoding::Protobuf { or_json },
                });
            }
        }
        Err(Status::not_acceptable())
    }

    /// How the events of a watch are written: as [`format`](Self::format) says, but not in YAML.
    ///
    /// # Errors
    ///
    /// 406 if nothing that is accepted can be sent, or YAML is preferred, as on the real server.
    pub(crate) fn watch_format(&self, query: &Query, typed: bool) -> Result<Format, Status> {
        let format = self.format(query, false, typed)?;
        if format.encoding == Encoding::Yaml {
            return Err(Status::not_acceptable());
        }
        Ok(format)
    }

    /// In which form a `Status` is sent.
    pub(crate) fn encoding_of_status(&self) -> Encoding {
        let mut plain = self
            .ranges
            .iter()
            .filter(|range| range.get("as").is_empty());
        let first = plain.find(|range| range.is_json() || range.is_protobuf() || range.is_yaml());
        match first {
            Some(range) if range.is_protobuf() => Encoding::Protobuf { or_json: true },
            Some(range) if range.is_yaml() => Encoding::Yaml,
            _ => Encoding::Json,
        }
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

// === impl Format ===

impl Format {
    /// Whole objects as JSON.
    pub(crate) const JSON: Self = Self {
        presentation: Presentation::Object,
        encoding: Encoding::Json,
    };
}

// === impl MediaRange ===

impl MediaRange {
    /// The form of objects that this range asks for; `None` if there is no such form.
    fn presentation(&self, query: &Query, list: bool) -> Option<Presentation> {
        let meta = self.get("g") == "meta.k8s.io" && self.get("v") == "v1";
        match self.get("as") {
            "" => Some(Presentation::Object),
            "Table" if meta => Some(Presentation::Table(include_object(query))),
            "PartialObjectMetadata" if meta && !list => Some(Presentation::Metadata),
            "PartialObjectMetadataList" if meta && list => Some(Presentation::Metadata),
            _ => None,
        }
    }

    /// How much the client wants it, in thousandths; 1000 if it does not say.
    fn quality(&self) -> u16 {
        let Ok(quality) = self.get("q").parse::<f32>() else {
            return 1000;
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to what fits"
        )]
        let thousandths = (quality.clamp(0.0, 1.0) * 1000.0) as u16;
        thousandths
    }

    fn is_protobuf(&self) -> bool {
        self.essence == windlass_protobuf::MEDIA_TYPE
    }

    fn is_yaml(&self) -> bool {
        self.essence == "application/yaml"
    }

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
    use super::{Accept, Encoding, Format, IncludeObject, Presentation, Query};

    #[test]
    fn the_first_supported_media_type_is_sent() {
        let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let metadata_list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let protobuf_metadata =
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                       application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let protobuf = "application/vnd.kubernetes.protobuf";
        let both = "application/vnd.kubernetes.protobuf,application/json";
        let json = |presentation| Some((presentation, Encoding::Json));
        let bytes = |presentation, or_json| Some((presentation, Encoding::Protobuf { or_json }));
        let object = Presentation::Object;
        let partial = Presentation::Metadata;
        for (header, list, typed, expected) in [
            ("application/json", true, true, json(object)),
            ("*/*", true, true, json(object)),
            (both, true, true, bytes(object, true)),
            (both, true, false, json(object)),
            (
                "application/json;q=0.1,application/vnd.kubernetes.protobuf",
                true,
                true,
                bytes(object, true),
            ),
            (
                kubectl,
                true,
                true,
                json(Presentation::Table(IncludeObject::Metadata)),
            ),
            (metadata, false, true, json(partial)),
            (metadata_list, true, true, json(partial)),
            (metadata, true, true, None),
            (protobuf_metadata, false, false, bytes(partial, false)),
            (protobuf, true, true, bytes(object, false)),
            (protobuf, true, false, None),
            (
                "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
                true,
                true,
                None,
            ),
            ("image/png", true, true, None),
            (
                "application/yaml",
                true,
                false,
                Some((object, Encoding::Yaml)),
            ),
        ] {
            let accept = Accept::parse([header].into_iter());
            let format = accept.format(&Query::default(), list, typed).ok();
            let found = format.map(|it| (it.presentation, it.encoding));
            assert_eq!(found, expected, "{header}");
        }
        let accept = Accept::parse(std::iter::empty());
        assert_eq!(
            accept.format(&Query::default(), true, true),
            Ok(Format::JSON)
        );
    }

    #[test]
    fn a_status_is_sent_in_the_first_media_type_without_parameters() {
        let protobuf = Encoding::Protobuf { or_json: true };
        for (header, expected) in [
            (
                "application/vnd.kubernetes.protobuf,application/json",
                protobuf,
            ),
            (
                "application/json,application/vnd.kubernetes.protobuf",
                Encoding::Json,
            ),
            ("application/yaml", Encoding::Yaml),
            ("*/*", Encoding::Json),
            ("image/png", Encoding::Json),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                Encoding::Json,
            ),
        ] {
            let accept = Accept::parse([header].into_iter());
            assert_eq!(accept.encoding_of_status(), expected, "{header}");
        }
    }
}
