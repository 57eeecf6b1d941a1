//! What waits for somebody's answer. In this version: reviews.

pub(super) mod review;
