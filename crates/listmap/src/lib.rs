//! [`ListMap`]: ordered lists by key, safe to share between threads.
//!
//! A utility for operators, for example for handlers by kind. The engine does not use it: its
//! routes change in whole snapshots. Calls for the same key are serial; calls for different keys do
//! not wait for each other, and no call waits for a user's closure.
//!
//! ```
//! use windlass_listmap::ListMap;
//!
//! let watchers = ListMap::new();
//! watchers.push("Website", "publish");
//! watchers.extend("Website", ["announce", "measure"]);
//!
//! // What an iteration sees stays as it is, whatever happens to the map meanwhile.
//! watchers.for_each("Website", |index, _| {
//!     if index == 0 {
//!         watchers.remove_first("Website", |name| *name == "announce");
//!     }
//! });
//! assert_eq!(*watchers.items("Website"), ["publish", "measure"]);
//! ```
//!
//! # For those who know the original
//!
//! The idea is the grafana-app-sdk's `ListMap`, in its `operator` package. What its
//! methods are called here:
//!
//! | there | here | row |
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
//! | `RemoveItems` | [`ListMap::remove_items`]; no limit is `None` | GA-58 |
//! | `RemoveKey` | [`ListMap::remove_key`], which also returns the list | GA-59 |
//! | `Size` | [`ListMap::len`] | GA-60 |
//!
//! Two things are otherwise than there. A key goes with its last item, unless
//! [`EmptyKeys::Keep`] is asked for; there it stays forever. And an iteration walks over a
//! snapshot; there it walks over memory that a removal shifts under it.

// What one uses.
mod list_map;

// How it works: which list a key has, its lock, its items.
mod table;

mod slot;

mod list;

mod sync;

pub use self::{
    list::Items,
    list_map::{EmptyKeys, ListMap},
};
