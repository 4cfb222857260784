//! The cells of endpoints and endpoint slices, which contain the first three entries of a list.

use jiff::Timestamp;
use serde_json::Value;

use super::{NONE, list_at, str_at, text_at};

/// The maximum number of entries in a cell. A cell with more entries ends with their number.
const SHOWN: usize = 3;

pub(in super::super) fn endpoints(object: &Value, _: Timestamp) -> Value {
    let subsets = list_at(object, "/subsets");
    if subsets.is_empty() {
        return NONE.into();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = list_at(subset, "/addresses").iter();
        let addresses = addresses.map(|address| str_at(address, "/ip", ""));
        let ports = list_at(subset, "/ports").iter();
        if ports.len() == 0 {
            all.extend(addresses.clone().map(str::to_owned));
        }
        for port in ports {
            let port = text_at(port, "/port").unwrap_or_default();
            all.extend(addresses.clone().map(|ip| {
                if ip.contains(':') {
                    format!("[{ip}]:{port}")
                } else {
                    format!("{ip}:{port}")
                }
            }));
        }
    }
    beginning(&all).into()
}

pub(in super::super) fn slice_ports(object: &Value, _: Timestamp) -> Value {
    let ports = list_at(object, "/ports").iter();
    let ports = ports.map(|port| {
        let name = || str_at(port, "/name", "").to_owned();
        text_at(port, "/port").unwrap_or_else(name)
    });
    or_unset(beginning(&ports.collect::<Vec<_>>()))
}

pub(in super::super) fn slice_endpoints(object: &Value, _: Timestamp) -> Value {
    let endpoints = list_at(object, "/endpoints").iter();
    let addresses = endpoints.flat_map(|endpoint| list_at(endpoint, "/addresses"));
    let addresses = addresses.filter_map(Value::as_str).map(str::to_owned);
    or_unset(beginning(&addresses.collect::<Vec<_>>()))
}

/// Formats the first entries and the number of the others.
fn beginning(all: &[String]) -> String {
    match all.len().checked_sub(SHOWN) {
        None | Some(0) => all.join(","),
        Some(more) => format!("{} + {more} more...", all[..SHOWN].join(",")),
    }
}

fn or_unset(text: String) -> Value {
    match text.as_str() {
        "" => "<unset>".into(),
        _ => text.into(),
    }
}
