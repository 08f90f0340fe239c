//! Hands the target triple to the code, for `build_info()`.

fn main() {
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=PGDYNO_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}
