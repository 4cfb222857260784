//! What a request is answered with.

use std::{collections::HashMap, convert::Infallible};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};

use super::{Load, Updates};
use crate::objects::FIRST_VERSION;

type Body = BoxBody<Bytes, Infallible>;

// === impl Load ===

impl Load {
    /// How many objects a page holds, if the client does not say.
    const PAGE: usize = 500;

    pub(super) fn reply(
        self: &std::sync::Arc<Self>,
        request: &Request<Incoming>,
    ) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default();
        let query: HashMap<_, _> = form_urlencoded::parse(query.as_bytes()).collect();
        let number = |name: &str| {
            query
                .get(name)
                .and_then(|value| value.parse::<usize>().ok())
        };
        match request.uri().path() {
            "/bench/go" => {
                self.orders.send_modify(|orders| {
                    orders.updates = Some(Updates {
                        events: number("events").unwrap_or_default(),
                        rate: number("rate").unwrap_or_default() as u64,
                    });
                });
                answer(StatusCode::OK, Bytes::from_static(b"{}"))
            }
            "/bench/expire" => {
                self.orders.send_modify(|orders| orders.expired += 1);
                answer(StatusCode::OK, Bytes::from_static(b"{}"))
            }
            path if path == self.kind.path() && query.contains_key("watch") => {
                let initial = query.contains_key("sendInitialEvents");
                let frames = self.events(initial).map(|bytes| Ok(Frame::data(bytes)));
                Response::new(BodyExt::boxed(StreamBody::new(frames)))
            }
            path if path == self.kind.path() => {
                let limit = number("limit").unwrap_or(Self::PAGE);
                answer(StatusCode::OK, self.page(number("continue").unwrap_or(0), limit))
            }
            _ => answer(
                StatusCode::INTERNAL_SERVER_ERROR,
                Bytes::from_static(
                    br#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"broken on purpose","reason":"InternalError","code":500}"#,
                ),
            ),
        }
    }

    fn page(&self, from: usize, limit: usize) -> Bytes {
        let to = (from + limit).min(self.count);
        let version = self.version(&self.orders.borrow());
        let token = if to < self.count {
            format!(",\"continue\":\"{to}\"")
        } else {
            String::new()
        };
        let mut page = Vec::with_capacity((to - from) * (self.item.len() + 1) + 200);
        page.extend_from_slice(
            format!(
                "{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{version}\"{token}}},\"items\":["
            )
            .as_bytes(),
        );
        for index in from..to {
            if index > from {
                page.push(b',');
            }
            let version = FIRST_VERSION + index as u64;
            self.item.render(index, version, 0, &mut page);
        }
        page.extend_from_slice(b"]}");
        Bytes::from(page)
    }
}

fn answer(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body).boxed());
    *response.status_mut() = status;
    response
}
