//! Content negotiation: selects the encoding and the presentation of a response. *(pure)*

use crate::status::Status;
use crate::table::{IncludeObject, MetaVersion};

use super::Query;

/// The media types that a client accepts, in its order of preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accept {
    ranges: Vec<MediaRange>,
}

/// The encoding and the presentation of the objects in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) presentation: Presentation,
    pub(crate) encoding: Encoding,
}

/// The encoding of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    /// YAML, which watches do not support.
    Yaml,
    Protobuf {
        /// Whether the client also accepts JSON, for objects that protobuf cannot encode.
        or_json: bool,
    },
}

/// The presentation of objects in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presentation {
    /// Complete objects.
    Object,
    /// `metadata` only, as `PartialObjectMetadata`.
    Metadata(MetaVersion),
    /// The rows of a `Table`, which kubectl prints.
    Table(IncludeObject, MetaVersion),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MediaRange {
    essence: String,
    parameters: Vec<(String, String)>,
}

// === impl Accept ===

impl Accept {
    /// Parses the values of the `Accept` headers. Without a header, the client accepts every type.
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
                    // As in Kubernetes, uppercase letters make another media type.
                    essence: essence.to_owned(),
                    parameters,
                })
            })
            .collect();
        // The sort must be stable, because the first of two equal qualities is preferred.
        ranges.sort_by_key(|range: &MediaRange| std::cmp::Reverse(range.quality()));
        Self { ranges }
    }

    /// Selects the format of the response to a get, list or watch.
    ///
    /// `typed` is whether complete objects have a protobuf encoding: built-in kinds have one, and
    /// custom resources do not. The metadata of all objects has one, and tables do not.
    ///
    /// # Errors
    ///
    /// 406 if the server supports none of the accepted media types.
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
                Presentation::Metadata(_) => true,
                Presentation::Table(..) => false,
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

    /// Selects the encoding of a `Status`.
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

    /// Returns whether the client prefers the aggregated discovery document.
    pub(crate) fn prefers_aggregated_discovery(&self) -> bool {
        let first = self.ranges.iter().find(|range| {
            // The server has no document of another version, so the next media type decides.
            range.is_json() && matches!((range.get("as"), range.get("v")), ("", _) | (_, "v2"))
        });
        first.is_some_and(|range| {
            range.get("g") == "apidiscovery.k8s.io" && range.get("as") == "APIGroupDiscoveryList"
        })
    }
}

// === impl Format ===

impl Format {
    /// Complete objects in JSON.
    pub(crate) const JSON: Self = Self {
        presentation: Presentation::Object,
        encoding: Encoding::Json,
    };

    /// Returns this format for a response that has no table.
    ///
    /// # Errors
    ///
    /// 406 for a table.
    pub(crate) fn without_table(self) -> Result<Self, Status> {
        match self.presentation {
            Presentation::Table(..) => Err(Status::not_acceptable()),
            Presentation::Object | Presentation::Metadata(_) => Ok(self),
        }
    }
}

// === impl MediaRange ===

impl MediaRange {
    /// Returns the presentation that this media range requests; `None` if it is not supported.
    fn presentation(&self, query: &Query, list: bool) -> Option<Presentation> {
        let kind = self.get("as");
        if kind.is_empty() {
            return Some(Presentation::Object);
        }
        let version = MetaVersion::parse(self.get("v"));
        let version = version.filter(|_| self.get("g") == "meta.k8s.io")?;
        match kind {
            "Table" => Some(Presentation::Table(include_object(query), version)),
            "PartialObjectMetadata" if !list => Some(Presentation::Metadata(version)),
            "PartialObjectMetadataList" if list => Some(Presentation::Metadata(version)),
            _ => None,
        }
    }

    /// Returns the quality value in thousandths; 1000 if the range has none.
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

/// Checks the option `includeObject` of a table. Kubernetes does so after it has executed the request.
///
/// # Errors
///
/// 400 for an unknown value.
pub(crate) fn check_include_object(format: Format, query: &Query) -> Result<(), Status> {
    if !matches!(format.presentation, Presentation::Table(..)) {
        return Ok(());
    }
    match query.get("includeObject") {
        "" | "Metadata" | "Object" | "None" => Ok(()),
        other => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must \
             be 'Metadata', 'Object', 'None', or empty"
        ))),
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
    use super::{Accept, Encoding, Format, IncludeObject, MetaVersion, Presentation, Query};

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
        let partial = Presentation::Metadata(MetaVersion::V1);
        let table = |version| Presentation::Table(IncludeObject::Metadata, version);
        let beta = "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io";
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
            (kubectl, true, true, json(table(MetaVersion::V1))),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
                true,
                true,
                json(table(MetaVersion::V1Beta1)),
            ),
            (
                "application/json;as=Table;v=v2;g=meta.k8s.io",
                true,
                true,
                None,
            ),
            (metadata, false, true, json(partial)),
            (
                beta,
                false,
                true,
                json(Presentation::Metadata(MetaVersion::V1Beta1)),
            ),
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
