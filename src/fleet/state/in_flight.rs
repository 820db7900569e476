//! What a reading shows of the operations in flight. A reading is judged by what they will be after it, before it is taken
//! in: a scale-up that has settled casts no shadow on it any more, whatever it did on the reading before.

use tokio::time::Instant;

use crate::fleet::limits::{OPERATION_LIFE, SETTLE};
use crate::fleet::observation::Observation;
use crate::fleet::operation::{Kind, Operation, OperationId};

/// The operations that are left after a reading.
pub(super) fn after(operations: &[Operation], reading: &Observation) -> Vec<Operation> {
    let mut operations = operations.to_vec();
    mark_seen(&mut operations, reading.reading.desired);
    drop_finished(&mut operations, reading.begun);
    operations
}

/// Notes for one deletion whether the capacity still counts what it names, as far as that is known.
pub(super) fn note_habit(operations: &mut [Operation], id: OperationId, is_counted: Option<bool>) {
    for operation in operations.iter_mut().filter(|operation| operation.id == id) {
        if let Kind::Delete { counted, .. } = &mut operation.kind {
            *counted = is_counted;
        }
    }
}

/// A capacity write is seen once a read says something else than what it was computed from. Once a reduction is seen,
/// so is everything before it.
fn mark_seen(operations: &mut Vec<Operation>, desired: u32) {
    let mut expected = desired;
    let mut reduced = None;
    for (position, operation) in operations.iter_mut().enumerate() {
        let is_reduction = operation.is_reduction();
        if let Kind::Capacity { from, to, seen, .. } = &mut operation.kind
            && !*seen
        {
            if expected == *from {
                expected = *to;
            } else {
                *seen = true;
                reduced = reduced.max(is_reduction.then_some(position));
            }
        }
    }
    if let Some(reduced) = reduced {
        let mut position = 0;
        operations.retain(|operation| {
            let outdated = position < reduced && operation.deletes().is_none() && operation.handle.is_none();
            position += 1;
            !outdated
        });
    }
}

/// Drops operations that have settled: those whose success is old enough that every read must show it by now, and those
/// that nobody can wait for any longer.
fn drop_finished(operations: &mut Vec<Operation>, now: Instant) {
    operations.retain(|operation| {
        let age = now.saturating_duration_since(operation.accepted);
        let settled = match (operation.finished, &operation.handle) {
            (Some(finished), _) => now.saturating_duration_since(finished) > SETTLE,
            (None, None) => age > SETTLE,
            (None, Some(_)) => false,
        };
        !settled && age <= OPERATION_LIFE
    });
}
