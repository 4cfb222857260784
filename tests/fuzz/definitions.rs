//! Custom resource definitions and their objects: writing a stored object back must not change it, and
//! a pattern that is made of parts accepts and rejects the values that are made for it.

use bolero::TypeGenerator;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::{edits::Edits, in_virtual_time, requests::send};

#[derive(Clone, Debug, TypeGenerator)]
pub(crate) struct Input {
    definition: Edits,
    object: Edits,
    pattern: Pattern,
}

/// A regular expression, by its parts.
#[derive(Clone, Debug, TypeGenerator)]
struct Pattern {
    #[generator(bolero::generator::produce::<Vec<Piece>>().with().len(1_usize..5))]
    pieces: Vec<Piece>,
    anchored: bool,
    /// Where the values that do not match have the character that no piece matches.
    at: u8,
}

/// What is repeated, how often it may be, and how often it is in the values.
#[derive(Clone, Debug, TypeGenerator)]
struct Piece {
    atom: u8,
    repeats: u8,
    times: [u8; 4],
}

/// Expressions with texts that they match. None matches [`OUTSIDER`].
const ATOMS: [(&str, [&str; 3]); 10] = [
    ("a", ["a", "a", "a"]),
    ("[a-c]", ["a", "b", "c"]),
    ("[^~x]", ["y", "\n", "\u{e9}"]),
    (r"\d", ["0", "5", "9"]),
    (r"\w", ["_", "Z", "0"]),
    ("(ab|c)", ["ab", "c", "ab"]),
    ("(?:k|lm?)", ["k", "l", "lm"]),
    (r"\.", [".", ".", "."]),
    (r"[\s-]", [" ", "-", "\t"]),
    (r"\p{Greek}", ["\u{3b1}", "\u{3a9}", "\u{3b2}"]),
];

/// Repetitions, with the least and the most times.
const REPEATS: [(&str, u8, u8); 8] = [
    ("", 1, 1),
    ("?", 0, 1),
    ("*", 0, 3),
    ("+", 1, 3),
    ("{2}", 2, 2),
    ("{1,3}", 1, 3),
    ("{2,}", 2, 4),
    ("+?", 1, 3),
];

/// A character that no atom matches.
const OUTSIDER: char = '~';

const DEFINITIONS: [&str; 2] = [
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.ex.io"},"spec":{"group":"ex.io","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"}],"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-validations":[{"rule":"self.size <= 9 || has(self.tags) && self.tags.all(t, t.startsWith('a'))","message":"too large","fieldPath":".size"}],"required":["size"],"properties":{"size":{"type":"integer","minimum":1,"maximum":100,"default":3},"color":{"type":"string","pattern":"^[a-z]+$","maxLength":10,"enum":["red","green"]},"port":{"x-kubernetes-int-or-string":true},"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"value":{"type":"number","nullable":true,"default":1.5}}}},"extra":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"more":{"type":"object","additionalProperties":{"type":"string","format":"date-time"}}}},"status":{"type":"object","properties":{"ready":{"type":"boolean"}}}}}}}]}}"#,
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.ex.io"},"spec":{"group":"ex.io","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.color"}],"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"spec":{"anyOf":[{"required":["size"]},{"required":["color"]}],"type":"object","properties":{"size":{"type":"number","multipleOf":0.5},"color":{"type":"string"},"embedded":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}}}}]}}"#,
];

const OBJECTS: [&str; 3] = [
    r#"{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":2,"color":"red","port":"http","tags":["a","b"],"items":[{"name":"x"},{"name":"y","value":null}],"extra":{"a":[1,{"b":null}]},"more":{"t":"2026-01-01T00:00:00Z"},"unknown":1}}"#,
    r#"{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1.5,"color":null,"embedded":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"e"},"data":{"a":"b"}}}}"#,
    r#"{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"port":8080},"status":{"ready":true}}"#,
];

const DEFINED: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ALL: &str = "/apis/ex.io/v1/namespaces/default/widgets";
const ONE: &str = "/apis/ex.io/v1/namespaces/default/widgets/w";

/// A file has a definition and an object.
pub(crate) fn kept(parts: &[&str]) -> Vec<Input> {
    let [definition, object] = parts else {
        panic!("two parts, not {parts:?}");
    };
    vec![Input {
        definition: Edits::none(definition),
        object: Edits::none(object),
        pattern: Pattern {
            pieces: Vec::new(),
            anchored: true,
            at: 0,
        },
    }]
}

// === impl Pattern ===

impl Pattern {
    fn text(&self) -> String {
        let pieces = self.pieces.iter().map(Piece::text).collect::<String>();
        if self.anchored {
            format!("^{pieces}$")
        } else {
            pieces
        }
    }

    /// A text that the pattern matches.
    fn matching(&self) -> String {
        let text: String = self.pieces.iter().map(Piece::matching).collect();
        if self.anchored {
            text
        } else {
            format!("{OUTSIDER}{text}{OUTSIDER}")
        }
    }

    /// A text that it does not match, if there is one.
    fn other(&self) -> Option<String> {
        if !self.anchored {
            let is_required = self.pieces.iter().any(|piece| piece.times().0 > 0);
            return is_required.then(|| OUTSIDER.to_string().repeat(9));
        }
        let mut characters: Vec<char> = self.matching().chars().collect();
        let at = usize::from(self.at) % (characters.len() + 1);
        characters.insert(at, OUTSIDER);
        Some(characters.into_iter().collect())
    }

    /// Creates an object with each text.
    async fn check(&self, server: &ApiServer) {
        let pattern = self.text();
        let definition = json!({
            "metadata": { "name": "texts.ex.io" },
            "spec": {
                "group": "ex.io", "scope": "Namespaced", "names": { "plural": "texts", "kind": "Text" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                        "spec": { "type": "string", "pattern": pattern },
                    } } },
                }],
            },
        });
        let request = Request::post(DEFINED).body(definition.to_string().into_bytes());
        let (status, answer) = send(server, request.expect("a request")).await;
        let message = String::from_utf8_lossy(&answer);
        assert_eq!(status, StatusCode::CREATED, "{pattern:?}: {message}");
        let matching = Some((self.matching(), StatusCode::CREATED));
        let other = self.other();
        let other = other.map(|text| (text, StatusCode::UNPROCESSABLE_ENTITY));
        for (text, expected) in matching.into_iter().chain(other) {
            let object = json!({
                "apiVersion": "ex.io/v1", "kind": "Text",
                "metadata": { "generateName": "t" }, "spec": text,
            });
            let request = Request::post("/apis/ex.io/v1/namespaces/default/texts")
                .body(object.to_string().into_bytes());
            let (status, answer) = send(server, request.expect("a request")).await;
            let message = String::from_utf8_lossy(&answer);
            assert_eq!(status, expected, "{text:?} of {pattern:?}: {message}");
        }
    }
}

// === impl Piece ===

impl Piece {
    fn atom(&self) -> (&'static str, [&'static str; 3]) {
        ATOMS[usize::from(self.atom) % ATOMS.len()]
    }

    fn repeats(&self) -> (&'static str, u8, u8) {
        REPEATS[usize::from(self.repeats) % REPEATS.len()]
    }

    /// The least and the most repetitions in a text.
    fn times(&self) -> (u8, u8) {
        let (_, least, most) = self.repeats();
        (least, most)
    }

    fn text(&self) -> String {
        format!("{}{}", self.atom().0, self.repeats().0)
    }

    fn matching(&self) -> String {
        let (least, most) = self.times();
        let times = least + self.times[0] % (most - least + 1);
        let texts = self.atom().1;
        let chosen = self.times.iter().cycle().take(times.into());
        chosen
            .map(|number| texts[usize::from(*number) % texts.len()])
            .collect()
    }
}

pub(crate) fn check(input: &Input) {
    in_virtual_time(async {
        let server = ApiServer::builder().seed(1).start();
        if !input.pattern.pieces.is_empty() {
            input.pattern.check(&server).await;
        }
        let definition = input.definition.of(&DEFINITIONS);
        let request = Request::post(DEFINED).body(definition);
        let (status, answer) = send(&server, request.expect("a request")).await;
        let message = String::from_utf8_lossy(&answer);
        assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{message}");
        let request = Request::post(ALL).body(input.object.of(&OBJECTS));
        let (status, created) = send(&server, request.expect("a request")).await;
        let message = String::from_utf8_lossy(&created);
        assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{message}");
        if status != StatusCode::CREATED {
            return;
        }
        let created: Value = serde_json::from_slice(&created).expect("an object");
        if created["metadata"]["name"] != "w" {
            return;
        }
        let request = Request::get(ONE).body(Vec::new());
        let (status, stored) = send(&server, request.expect("a request")).await;
        assert_eq!(status, StatusCode::OK);
        let request = Request::put(ONE).body(stored);
        let (status, written) = send(&server, request.expect("a request")).await;
        let message = String::from_utf8_lossy(&written);
        assert_eq!(status, StatusCode::OK, "{message}");
        let written: Value = serde_json::from_slice(&written).expect("an object");
        assert_eq!(
            written, created,
            "to write back what is stored changes nothing"
        );
    });
}
