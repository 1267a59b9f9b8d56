//! The program with the compiler's counters in it, and what they say.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Builds the program with counters, in a folder of its own; the crates it needs are there already.
pub fn build() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("steps");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--offline", "--quiet", "--bin", "offshoot", "--target-dir"])
        .arg(&target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .env("RUSTFLAGS", "-C instrument-coverage -C llvm-args=--instrprof-atomic-counter-update-all")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // Programs that run during the build have counters too, and would leave them where they run.
        .env("LLVM_PROFILE_FILE", target.join("build.profraw"))
        .status()
        .unwrap();
    assert!(built.success(), "the program with counters was not built: {built}");
    target.join("debug").join(format!("offshoot{}", std::env::consts::EXE_SUFFIX))
}

/// The sum of all counters of a raw profile: a header of 16 words, the functions, the counters, the names.
pub fn sum(raw: &[u8]) -> u64 {
    let words = |bytes: &[u8]| -> Vec<u64> {
        bytes.chunks_exact(8).map(|w| u64::from_ne_bytes(w.try_into().unwrap())).collect()
    };
    let header = words(&raw[..16 * 8]);
    // The upper byte of the version has flags.
    let (magic, version) = (header[0], header[1] & 0xff_ffff);
    assert_eq!(magic, u64::from_be_bytes(*b"\xfflprofr\x81"), "not a raw profile");
    assert_eq!(
        version, 10,
        "the compiler writes profiles of version {version}, and this test reads version 10"
    );
    let [counters, padding, bitmap, bitmap_padding, names] = header[5..10] else { unreachable!() };
    assert_eq!((bitmap, bitmap_padding), (0, 0), "the counters are not all there is");
    let end = raw.len() - (names.next_multiple_of(8) + padding) as usize;
    let start = end - counters as usize * 8;
    words(&raw[start..end]).iter().sum()
}
