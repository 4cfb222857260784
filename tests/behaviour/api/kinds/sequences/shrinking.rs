//! Shortens a sequence that differs, so that a report shows only the requests that matter.

use super::super::Pair;
use super::name;
use super::replay::{Replay, Sequence, replay};
use crate::cluster::Cluster;

/// Repeats a sequence without each of its steps in turn, under new names, until no step can be left
/// out. `sent` is the number of steps after which the sequence differed, and `number` that of the
/// sequence. The shortest sequence may differ in another way than the whole one.
///
/// Returns nothing if the sequence does not differ again.
pub(super) async fn shortest(
    pair: &Pair,
    cluster: &Cluster,
    sequence: &Sequence,
    sent: usize,
    number: u64,
) -> Option<Replay> {
    let mut attempts = 0_u32;
    let mut attempt = async |kept: &[usize]| {
        attempts += 1;
        let name = name(&sequence.object, number, attempts, &pair.theirs.namespace);
        let replay = replay(pair, cluster, sequence, kept, &name).await;
        let is_new = replay.difference.is_some() && replay.rule(&sequence.object).is_none();
        is_new.then_some(replay)
    };
    let mut kept: Vec<usize> = (0..sent).collect();
    let mut found = attempt(&kept).await?;
    loop {
        let before = kept.len();
        for at in (0..before).rev() {
            // The steps after a difference are not sent.
            if at >= kept.len() {
                continue;
            }
            let mut fewer = kept.clone();
            fewer.remove(at);
            if let Some(replay) = attempt(&fewer).await {
                fewer.truncate(replay.sent.len());
                (kept, found) = (fewer, replay);
            }
        }
        if kept.len() == before {
            return Some(found);
        }
    }
}
