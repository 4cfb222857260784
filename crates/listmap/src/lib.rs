//! [`ListMap`]: ordered lists by key, safe to share between threads.
//!
//! A utility for operators, for example for a registry of handlers by kind. Windlass itself does not
//! use it. Calls for the same key run one after the other. Calls for different keys do not wait for
//! each other, and no call waits for a user's closure.
//!
//! ```
//! use windlass_listmap::ListMap;
//!
//! let watchers = ListMap::new();
//! watchers.push("Website", "publish");
//! watchers.extend("Website", ["announce", "measure"]);
//!
//! // An iteration sees a snapshot, even if the map changes meanwhile.
//! watchers.for_each("Website", |index, _| {
//!     if index == 0 {
//!         watchers.remove_first("Website", |name| *name == "announce");
//!     }
//! });
//! assert_eq!(*watchers.items("Website"), ["publish", "measure"]);
//! ```
//!
//! # Coming from grafana-app-sdk
//!
//! This crate provides what `ListMap` in the `operator` package of the grafana-app-sdk provides.
//! The methods correspond as follows; the last column is the row in `docs/features.md`:
//!
//! | grafana-app-sdk | here | row |
//! |--|--|--|
//! | `NewListMap` | [`ListMap::new`] | GA-49 |
//! | `AddItem` | [`ListMap::push`], and [`ListMap::extend`] for several | GA-50 |
//! | `ItemAt` | [`ListMap::get`], an [`Option`] | GA-51 |
//! | `KeySize` | [`ListMap::len_of`] | GA-52 |
//! | `Keys` | [`ListMap::keys`] | GA-53 |
//! | `Range` | [`ListMap::for_each`], or a loop over [`ListMap::items`] | GA-54 |
//! | `RangeAll` | [`ListMap::for_each_of_all`], or a loop over [`ListMap::lists`] | GA-55 |
//! | `RemoveItem` | [`ListMap::remove_first`], which also returns the item | GA-56 |
//! | `RemoveItemAt` | [`ListMap::remove_at`], which also returns the item | GA-57 |
//! | `RemoveItems` | [`ListMap::remove_items`]; `None` is no limit | GA-58 |
//! | `RemoveKey` | [`ListMap::remove_key`], which also returns the list | GA-59 |
//! | `Size` | [`ListMap::len`] | GA-60 |
//!
//! There are two differences. By default a key is removed with its last item, unless
//! [`EmptyKeys::Keep`] is set; in the grafana-app-sdk it stays for ever. And an iteration runs over
//! a snapshot; in the grafana-app-sdk a concurrent removal shifts the memory of the iteration.

// The public type.
mod list_map;

// The implementation: the table of keys, the lock of each key, and its items.
mod table;

mod slot;

mod list;

mod sync;

pub use self::{
    list::Items,
    list_map::{EmptyKeys, ListMap},
};
