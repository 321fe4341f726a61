//! What the real clients are told to do, the same inside a sandbox and outside of it.

use kotak_tests::Stage;
use kotak_tests::net::{packages, world};

/// A WebSocket client (RFC 6455) of Python's own library: connects directly, or by the HTTP proxy
/// of its environment, sends one message and prints what comes back.
pub(crate) const WEBSOCKET: &str = r#"
import base64, hashlib, os, socket, ssl, struct, sys
from urllib.parse import urlsplit
host, way = sys.argv[1:3]
if way == "direct":
    sock = socket.create_connection((host, 443))
else:
    proxy = urlsplit(os.environ["HTTPS_PROXY"])
    sock = socket.create_connection((proxy.hostname, proxy.port))
    sock.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = sock.recv(1)
        if not part: sys.exit("the proxy hung up")
        head += part
    if b" 200 " not in head.split(b"\r\n")[0]: sys.exit(head.decode())
tls = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"]).wrap_socket(sock, server_hostname=host)
key = base64.b64encode(os.urandom(16)).decode()
tls.sendall((f"GET /websocket HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
reader = tls.makefile("rb")
status = reader.readline()
headers = {}
while (line := reader.readline().strip()):
    name, _, value = line.decode().partition(":")
    headers[name.lower()] = value.strip()
want = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
if b" 101 " not in status or headers.get("sec-websocket-accept") != want: sys.exit(f"{status} {headers}")
message, mask = b"hello", os.urandom(4)
tls.sendall(struct.pack("!BB", 0x81, 0x80 | len(message)) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(message)))
first, length = struct.unpack("!BB", reader.read(2))
print("echo:", reader.read(length).decode())
"#;

/// One gRPC-like call over HTTP/2: prints the HTTP version, whether the message came back as it
/// was, and the status of the trailers.
pub(crate) fn grpc(host: &str) -> String {
    format!(
        "printf '\\000\\000\\000\\000\\005hello' > call; \
         version=$(curl -fsS --http2 -H 'content-type: application/grpc' -H 'te: trailers' \
           --data-binary @call -D head -o reply -w '%{{http_version}}' https://{host}/grpc/Echo); \
         cmp call reply && same=ok; \
         echo $version $same $(tr -d '\\r' < head | sed -n 's/^grpc-status: //p')"
    )
}

const GIT: &str = "export GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 GIT_AUTHOR_NAME=T \
    GIT_AUTHOR_EMAIL=t@localhost GIT_COMMITTER_NAME=T GIT_COMMITTER_EMAIL=t@localhost; ";

/// Clones over HTTPS, prints the file, pushes a branch of its own, and sees it at the server.
pub(crate) fn git_https(host: &str) -> String {
    let url = format!("https://{host}/git/sample.git");
    format!(
        "{GIT} rm -rf over-https; git clone --quiet {url} over-https; cat over-https/hello.txt; \
         cd over-https; branch=b$$-$(date +%N); git checkout --quiet -b $branch; \
         git commit --quiet --allow-empty -m x; git push --quiet origin $branch; \
         git ls-remote {url} $branch | grep -q $branch && echo pushed"
    )
}

/// Clones over SSH with the key of the stage, and prints the file. `GIT_SSH_COMMAND` is added to,
/// not replaced: a sandbox sets the way through its proxy there.
pub(crate) fn git_ssh(stage: &Stage, host: &str, options: &str) -> String {
    let key = std::fs::read_to_string(world().ssh.key()).expect("the client's key");
    stage.write("work/client_key", &key);
    let path = world().repositories.sample();
    let account = std::env::var("USER").expect("USER");
    format!(
        "{GIT} chmod 600 client_key; rm -rf over-ssh; \
         export GIT_SSH_COMMAND=\"${{GIT_SSH_COMMAND:-ssh}} -F none -i client_key -o BatchMode=yes \
           -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR {options}\"; \
         git clone --quiet ssh://{account}@{host}{} over-ssh; cat over-ssh/hello.txt",
        path.display()
    )
}

/// Installs the sample package with npm, and runs it.
pub(crate) fn npm(host: &str) -> String {
    let package = packages::NPM_PACKAGE;
    format!(
        "rm -rf npm-work; mkdir npm-work; cd npm-work; echo '{{}}' > package.json; \
         npm install --registry=https://{host}/npm/ --cafile=\"$NODE_EXTRA_CA_CERTS\" --cache=$PWD/cache --no-audit --no-fund \
           --no-update-notifier --loglevel=error --fetch-retries=0 {package} >&2; \
         node -e 'console.log(require(\"{package}\"))'"
    )
}

/// Downloads the sample wheel with pip.
pub(crate) fn pip(host: &str) -> String {
    let package = packages::PIP_PACKAGE;
    format!(
        "rm -rf wheels; python3 -m pip --isolated --disable-pip-version-check --retries 0 \
           --cert \"$PIP_CERT\" download --no-cache-dir --quiet \
           --index-url https://{host}/simple/ --dest wheels {package} >&2; ls wheels"
    )
}

/// Fetches the sample crate with cargo, and prints the folder that it was unpacked to.
pub(crate) fn cargo(stage: &Stage, host: &str) -> String {
    let name = packages::CRATE;
    stage.write(
        "work/cargo-work/Cargo.toml",
        &format!("[package]\nname = \"fetches\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n{name} = \"1\"\n"),
    );
    stage.write("work/cargo-work/src/lib.rs", "");
    stage.write(
        "work/cargo-work/.cargo/config.toml",
        &format!("[source.crates-io]\nreplace-with = \"stage\"\n[source.stage]\nregistry = \"sparse+https://{host}/index/\"\n[net]\nretry = 0\n"),
    );
    let rust = std::env::var("KOTAK_TEST_RUST").expect("KOTAK_TEST_RUST names the toolchain");
    format!(
        "cd cargo-work; rm -rf Cargo.lock cargo-home; export CARGO_HOME=$PWD/cargo-home; \
         RUSTC={rust}/bin/rustc {rust}/bin/cargo fetch --quiet >&2; ls cargo-home/registry/src/*"
    )
}
