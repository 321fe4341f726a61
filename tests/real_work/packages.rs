//! Builds and package managers, offline.

use crate::{Work, rust};
use kotak_tests::stage::skip;
use std::fmt::Write;

#[test]
fn cargo_builds_a_crate_with_a_build_script_and_a_vendored_dependency() {
    let Some(rust) = rust() else {
        skip("cargo: KOTAK_TEST_RUST names no toolchain");
        return;
    };
    let prepare = "mkdir -p src vendor/greet/src near/src\n\
        printf '[package]\\nname = \"app\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\nbuild = \"build.rs\"\\n[dependencies]\\ngreet = \"1\"\\nnear = { path = \"near\" }\\n' > Cargo.toml\n\
        mkdir .cargo && printf '[source.crates-io]\\nreplace-with = \"vendored\"\\n[source.vendored]\\ndirectory = \"vendor\"\\n' > .cargo/config.toml\n\
        printf '[package]\\nname = \"greet\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n' > vendor/greet/Cargo.toml\n\
        printf 'pub fn hello() -> &'\"'\"'static str { \"hello\" }\\n' > vendor/greet/src/lib.rs\n\
        printf '{\"files\":{},\"package\":null}' > vendor/greet/.cargo-checksum.json\n\
        printf '[package]\\nname = \"near\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' > near/Cargo.toml\n\
        printf 'pub fn by() -> u32 { 7 }\\n' > near/src/lib.rs\n\
        printf 'fn main() { let out = std::env::var(\"OUT_DIR\").unwrap(); std::fs::write(format!(\"{out}/made.rs\"), \"const MADE: u32 = 35;\").unwrap(); }\\n' > build.rs\n\
        printf 'include!(concat!(env!(\"OUT_DIR\"), \"/made.rs\"));\\nfn main() { println!(\"{} {}\", greet::hello(), MADE + near::by()); }\\n#[test]\\nfn it() { assert_eq!(MADE, 35); }\\n' > src/main.rs\n";
    // Fingerprints hold times.
    let work = Work::new(&["cc"], prepare).volatile(&[
        ".json",
        "invoked.timestamp",
        "root-output",
        "output",
        "stderr",
        ".d",
    ]);
    work.is_the_same(&format!(
        "export PATH={rust}/bin:$PATH CARGO_NET_OFFLINE=true CARGO_INCREMENTAL=0 CARGO_BUILD_JOBS=1 RUSTFLAGS=-Cdebuginfo=0; \
         cargo build -q; ./target/debug/app; cargo test -q 2>/dev/null | grep -c 'test result: ok'; \
         find target -name '*.lock' -delete; rm -rf target/debug/.fingerprint target/debug/deps target/.rustc_info.json; rm -rf target/debug/build"
    ));
}

/// A package tree of `count` packages, each of which needs the next.
fn node_packages(count: u32) -> String {
    let mut script = String::from("mkdir packages\n");
    let mut wanted = String::new();
    for number in 0..count {
        let needs = if number % 10 == 9 || number + 1 == count {
            String::new()
        } else {
            format!("\\\"p{}\\\":\\\"file:../p{}\\\"", number + 1, number + 1)
        };
        writeln!(
            script,
            "mkdir packages/p{number}; printf \"{{\\\"name\\\":\\\"p{number}\\\",\\\"version\\\":\\\"1.0.0\\\",\\\"bin\\\":{{\\\"p{number}\\\":\\\"cli.js\\\"}},\\\"dependencies\\\":{{{needs}}}}}\" > packages/p{number}/package.json; \
             printf '#!/usr/bin/env node\\nconsole.log({number})\\n' > packages/p{number}/cli.js; echo 'module.exports = {number}' > packages/p{number}/index.js"
        )
        .expect("text");
        if number > 0 {
            wanted.push(',');
        }
        write!(wanted, "\\\"p{number}\\\":\\\"file:packages/p{number}\\\"").expect("text");
    }
    writeln!(script, "printf \"{{\\\"name\\\":\\\"app\\\",\\\"version\\\":\\\"1.0.0\\\",\\\"dependencies\\\":{{{wanted}}}}}\" > package.json").expect("text");
    script
}

#[test]
fn npm_installs_two_hundred_packages() {
    let work = Work::new(&["npm", "node"], &node_packages(200));
    work.is_the_same(
        "npm install --offline --no-audit --no-fund --install-links --loglevel=error >/dev/null; \
         ls node_modules | wc -l; node -e 'console.log(require(\"p7\"), require(\"p199\"))'; \
         ./node_modules/.bin/p3; npm ls --depth=0 2>/dev/null | grep -c p",
    );
}

#[test]
fn node_gyp_builds_a_native_addon() {
    let prepare = "printf '{\"targets\":[{\"target_name\":\"addon\",\"sources\":[\"addon.c\"]}]}' > binding.gyp\n\
        printf '{\"name\":\"addon\",\"version\":\"1.0.0\",\"gypfile\":true}' > package.json\n\
        printf '#include <node_api.h>\\nstatic napi_value init(napi_env e, napi_value x) { napi_value n; napi_create_int32(e, 42, &n); return n; }\\nNAPI_MODULE(addon, init)\\n' > addon.c\n";
    let work = Work::new(&["npm", "node", "make", "c++", "python3"], prepare).volatile(&[
        ".d",
        "config.gypi",
        "Makefile",
    ]);
    let find = work.field().outside(
        "for d in $(npm root -g) /usr/share/nodejs /usr/lib/node_modules; do \
         for g in \"$d/npm/node_modules/node-gyp\" \"$d/node-gyp\"; do \
         [ -e \"$g/bin/node-gyp.js\" ] && echo \"$g/bin/node-gyp.js\" && exit; done; done",
    );
    let gyp = find.stdout.trim();
    let headers = [
        "/usr/include/node/node_api.h",
        "/usr/include/nodejs/src/node_api.h",
    ];
    let dir = headers
        .iter()
        .find(|header| std::path::Path::new(header).exists());
    let (Some(_), false) = (dir, gyp.is_empty()) else {
        skip("a native addon: node's headers or node-gyp are not installed");
        return;
    };
    work.is_the_same(&format!(
        "node '{gyp}' rebuild --nodedir=/usr >build.log 2>&1 || {{ tail -20 build.log >&2; exit 1; }}; rm build.log; \
         node -e 'console.log(require(\"./build/Release/addon.node\"))'; rm -rf build/Release/.deps"
    ));
}

#[test]
fn a_virtual_environment_builds_an_extension_in_c() {
    let prepare = "mkdir ext && printf 'from setuptools import Extension, setup\\nsetup(name=\"ext\", version=\"1.0\", ext_modules=[Extension(\"ext\", [\"ext.c\"])])\\n' > ext/setup.py\n\
        printf '#include <Python.h>\\nstatic struct PyModuleDef d = {PyModuleDef_HEAD_INIT, \"ext\", 0, -1, 0};\\nPyMODINIT_FUNC PyInit_ext(void) { PyObject *m = PyModule_Create(&d); PyModule_AddIntConstant(m, \"answer\", 42); return m; }\\n' > ext/ext.c\n";
    let work = Work::new(&["python3", "cc"], prepare).volatile(&[
        "RECORD",
        "direct_url.json",
        ".dist-info/METADATA",
    ]);
    let ready = work.field().outside(
        "python3 -c 'import ensurepip, sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_paths()[\"include\"] + \"/Python.h\"))'",
    );
    if !ready.succeeded() {
        skip("a virtual environment: python3-venv or python3-dev is not installed");
        return;
    }
    work.is_the_same(
        "python3 -m venv venv; . venv/bin/activate; python -c 'import sys; print(sys.prefix != sys.base_prefix)'; \
         cd ext; if python -c 'import setuptools' 2>/dev/null; then python setup.py -q build_ext --inplace 2>/dev/null; python -c 'import ext; print(ext.answer)'; rm -rf build; fi; \
         cc -shared -fPIC $(python3 -c 'import sysconfig; print(\"-I\" + sysconfig.get_paths()[\"include\"])') ext.c -o own.so; \
         cd ..; pip --version | cut -d' ' -f1; pip install -q --no-index --no-build-isolation --no-deps ./ext >/dev/null 2>&1 && python -c 'import ext; print(ext.answer)'; \
         deactivate; find venv -name '*.pem' | wc -l; rm -rf ext/*.egg-info",
    );
}

#[test]
fn cmake_and_make_build_a_program() {
    let prepare = "printf 'cmake_minimum_required(VERSION 3.10)\\nproject(app C)\\nadd_executable(app main.c)\\n' > CMakeLists.txt\n\
        printf '#include <stdio.h>\\nint main(void) { puts(\"built\"); return 0; }\\n' > main.c\n";
    Work::new(&["cmake", "make", "cc"], prepare)
        .volatile(&[".log", ".yaml", ".make", ".txt", ".cmake", ".d", ".ts"])
        .is_the_same("cmake -S . -B build >/dev/null; make -s -C build >/dev/null; ./build/app");
}

#[test]
fn gcc_and_make_build_a_library() {
    let prepare = "for i in 1 2 3 4 5 6 7 8; do printf \"int f$i(void) { return $i; }\\n\" > f$i.c; done\n\
        printf 'int f8(void); int main(void) { return f8() - 8; }\\n' > main.c\n\
        printf 'all: app\\nlibf.a: f1.o f2.o f3.o f4.o f5.o f6.o f7.o f8.o\\n\\tar rcD $@ $^\\napp: main.o libf.a\\n\\tcc -o $@ main.o -L. -lf\\n' > Makefile\n";
    Work::new(&["make", "cc", "ar"], prepare).is_the_same("make -s -j3; ./app; echo $?; make -s");
}
