//! The fuzz targets over the small inputs that are checked in, and over what is left of them when bytes are missing or
//! wrong: what a fuzzer would begin with, in an ordinary test.

use std::path::Path;

use holdpoint_fuzzing::{TARGETS, Target};

fn each_of(target: Target, name: &str) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let mut seen = 0;
    for entry in std::fs::read_dir(&seeds).expect("each target has seeds") {
        let bytes = std::fs::read(entry.expect("a readable entry").path()).expect("a readable file");
        target(&bytes);
        // Every cut of a short one, some of a long one.
        let step = bytes.len().div_ceil(64).max(1);
        for cut in (0..bytes.len()).step_by(step) {
            target(&bytes[..cut]);
            let mut flipped = bytes.clone();
            flipped[cut] ^= 1 << (cut % 8);
            target(&flipped);
        }
        seen += 1;
    }
    assert!(seen > 0, "{name} has no seeds");
}

#[test]
fn what_is_checked_in_and_what_damage_makes_of_it() {
    for (name, target) in TARGETS {
        each_of(*target, name);
    }
}
