//! Check `flood`: no more than `maxDirectivesPerSecond` messages in any second; every message counts.

use super::passage::{Passage, Stop};
use crate::contract::code::Code;

pub(super) fn check(p: &mut Passage) -> Result<(), Stop> {
    if !p.floods {
        return Ok(());
    }
    let rate = p.supervisor.def.max_directives_per_second;
    Err(Stop::refused(
        Code::RateLimited,
        "flood",
        format!(
            "more than {rate} messages in a second; send slower, or raise maxDirectivesPerSecond"
        ),
    ))
}
