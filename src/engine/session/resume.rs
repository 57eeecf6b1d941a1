//! Where a stream goes on (C38), as a pure rule.

use crate::contract::id::Cursor;
use crate::wire::hello::Resume;

/// A range of events that will not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    /// The first cursor of it.
    pub from: u64,
    /// The last cursor of it.
    pub to: u64,
    /// Why (C39).
    pub reason: &'static str,
}

/// Where a stream goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// The cursor after which events come.
    pub after: u64,
    /// What is missed by that.
    pub gap: Option<Gap>,
}

/// Decides where a stream goes on. `last` is the newest cursor that the snapshot shows.
pub(super) fn plan(resume: &Resume, epoch: u32, last: u64, acknowledged: Option<u64>) -> Plan {
    let after = |after| Plan { after, gap: None };
    match (resume, acknowledged) {
        (Resume::After(text), _) => match text.parse::<Cursor>() {
            Ok(cursor) if cursor.epoch == epoch && cursor.n <= last => after(cursor.n),
            // Of the future, of another epoch, or garbled: nobody knows what the engine has seen.
            Ok(_) | Err(_) => Plan {
                after: last,
                gap: Some(Gap {
                    from: last.min(1),
                    to: last,
                    reason: "EPOCH",
                }),
            },
        },
        (Resume::Acknowledged, Some(acknowledged)) => after(acknowledged.min(last)),
        (Resume::Snapshot, Some(acknowledged)) if acknowledged < last => Plan {
            after: last,
            gap: Some(Gap {
                from: acknowledged + 1,
                to: last,
                reason: "SNAPSHOT",
            }),
        },
        (Resume::Snapshot, _) | (Resume::Acknowledged, None) => after(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str) -> Resume {
        Resume::After(text.to_owned())
    }

    #[test]
    fn a_stream_goes_on_where_the_contract_says() {
        let gap = |from, to, reason| Some(Gap { from, to, reason });
        let cases = [
            (after("c1-0"), None, 0, None),
            (after("c1-7"), Some(3), 7, None),
            (after("c1-9"), None, 9, None),
            (after("c1-10"), Some(3), 9, gap(1, 9, "EPOCH")),
            (after("c2-7"), Some(3), 9, gap(1, 9, "EPOCH")),
            (after("c0-7"), None, 9, gap(1, 9, "EPOCH")),
            (after("rubbish"), None, 9, gap(1, 9, "EPOCH")),
            (Resume::Acknowledged, Some(3), 3, None),
            (Resume::Acknowledged, Some(0), 0, None),
            (Resume::Acknowledged, None, 9, None),
            (Resume::Snapshot, Some(3), 9, gap(4, 9, "SNAPSHOT")),
            (Resume::Snapshot, Some(9), 9, None),
            (Resume::Snapshot, None, 9, None),
        ];
        for (resume, acknowledged, after, gap) in cases {
            assert_eq!(
                plan(&resume, 1, 9, acknowledged),
                Plan { after, gap },
                "{resume:?}, acknowledged {acknowledged:?}"
            );
        }
    }

    #[test]
    fn an_empty_stream_has_an_empty_gap() {
        let plan = plan(&after("c1-5"), 1, 0, None);
        assert_eq!(plan.gap.map(|g| (g.from, g.to)), Some((0, 0)));
    }
}
