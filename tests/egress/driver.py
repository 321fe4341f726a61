"""Runs inside a session, reads one JSON object a line, makes the attempt that it describes with raw
sockets, and answers with one JSON object a line. Knows nothing about what should happen."""
import json, os, resource, socket, ssl, subprocess, sys, threading, time
from urllib.parse import urlsplit

LIMIT = 30


def proxy(variable):
    url = urlsplit(os.environ[variable])
    return url.hostname, url.port


def dial(place):
    return socket.create_connection(place, timeout=LIMIT)


def read_to_end(sock, most=65536):
    """What comes until the end, at most so much; a reset or a silence ends it too."""
    data = b""
    try:
        while len(data) < most and (part := sock.recv(most)):
            data += part
    except (ConnectionError, TimeoutError, ssl.SSLError) as error:
        return data, type(error).__name__
    return data, "end"


def read_head(sock):
    """One HTTP head, byte by byte, so that nothing after it is taken."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < 65536:
        part = sock.recv(1)
        if not part:
            break
        head += part
    return head


def text(data):
    return data.decode("latin-1")


def connect(target, head=None):
    """CONNECT through the HTTP proxy: the socket, the status and the rest of the answer."""
    sock = dial(proxy("HTTPS_PROXY"))
    if head is None:
        head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
    sock.sendall(head.encode("latin-1"))
    answer = read_head(sock)
    words = text(answer).split(" ", 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    return sock, status, answer


def socks(host, port, kind=3):
    """A SOCKS5 CONNECT (RFC 1928): the socket and the reply code."""
    sock = dial(proxy("ALL_PROXY"))
    sock.sendall(b"\x05\x01\x00")
    chosen = sock.recv(2)
    if chosen != b"\x05\x00":
        return sock, 255
    address = bytes([len(host)]) + host if kind == 3 else host
    sock.sendall(b"\x05\x01\x00" + bytes([kind]) + address + port.to_bytes(2, "big"))
    reply = sock.recv(4)
    if len(reply) < 2:
        return sock, 255
    if reply[1] == 0 and len(reply) == 4:
        sock.recv({1: 6, 4: 18}.get(reply[3], 2))
    return sock, reply[1]


def hello(name):
    """The bytes of a real ClientHello for a name, or for none."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    session = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def two_names(bytes_, second):
    """A ClientHello with a second entry in its list of server names."""
    body = bytearray(bytes_)
    at = 5 + 4 + 2 + 32
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at:at + 2], "big")
    at += 1 + body[at]
    extensions, at = at, at + 2
    while at < len(body):
        kind, length = int.from_bytes(body[at:at + 2], "big"), int.from_bytes(body[at + 2:at + 4], "big")
        if kind == 0:
            break
        at += 4 + length
    entry = b"\x00" + len(second).to_bytes(2, "big") + second.encode()
    for place, width in ((extensions, 2), (at + 2, 2), (at + 4, 2), (3, 2), (6, 3)):
        value = int.from_bytes(body[place:place + width], "big") + len(entry)
        body[place:place + width] = value.to_bytes(width, "big")
    end = at + 4 + length
    return bytes(body[:end] + entry + body[end:])


def tls_over(sock, name):
    """Whether a verified handshake for the name succeeds over the socket."""
    try:
        with ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"]).wrap_socket(
                sock, server_hostname=name):
            return "tls"
    except (ssl.SSLError, OSError) as error:
        return type(error).__name__


def do(job):
    op = job["op"]
    if op == "connect":
        sock, status, answer = connect(job["target"], job.get("head"))
        result = {"status": status, "answer": text(answer)}
        if status == 200 and job.get("tls"):
            result["tls"] = tls_over(sock, job["tls"])
        return result
    if op == "raw":
        sock = dial(proxy(job.get("proxy", "HTTP_PROXY")))
        sock.sendall(bytes.fromhex(job["hex"]))
        if job.get("shut"):
            sock.shutdown(socket.SHUT_WR)
        data, how = read_to_end(sock)
        return {"answer": text(data), "how": how}
    if op == "socks":
        sock, code = socks(bytes.fromhex(job["hex"]), job["port"], job.get("kind", 3))
        result = {"code": code}
        if code == 0 and job.get("tls"):
            result["tls"] = tls_over(sock, job["tls"])
        return result
    if op == "dns":
        try:
            found = socket.getaddrinfo(job["name"], job.get("port", 443), type=socket.SOCK_STREAM)
            return {"addresses": sorted({entry[4][0] for entry in found})}
        except (socket.gaierror, UnicodeError) as error:
            return {"error": str(error)}
    if op == "transparent":
        # As a program that knows nothing of proxies.
        try:
            sock = socket.create_connection((job["name"], job["port"]), timeout=LIMIT)
        except (OSError, UnicodeError) as error:
            return {"error": str(error)}
        if job.get("tls"):
            return {"tls": tls_over(sock, job["tls"])}
        sock.sendall(bytes.fromhex(job["hex"]))
        if job.get("shut"):
            sock.shutdown(socket.SHUT_WR)
        data, how = read_to_end(sock)
        return {"answer": text(data), "how": how}
    if op == "hello":
        sock, status, answer = connect(job["target"])
        if status != 200:
            return {"status": status, "answer": text(answer)}
        bytes_ = bytes.fromhex(job["hex"]) if "hex" in job else hello(job.get("name"))
        if "second" in job:
            bytes_ = two_names(bytes_, job["second"])
        step = job.get("step", len(bytes_))
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(bytes_), step):
                sock.sendall(bytes_[at:at + step])
                if step < len(bytes_):
                    time.sleep(0.002)
            # The first record of a server's answer is a handshake (22), that of a refusal none.
            first = sock.recv(1)
        except OSError as error:
            return {"status": status, "first": None, "how": type(error).__name__}
        return {"status": status, "first": first[0] if first else None}
    if op == "many":
        # So many attempts at once, each by CONNECT; the statuses counted.
        counts, lock, gate = {}, threading.Lock(), threading.Barrier(job["parallel"])

        def one():
            gate.wait()
            for _ in range(job.get("each", 1)):
                try:
                    sock, status, _ = connect(job["target"])
                    if status == 200 and job.get("tls"):
                        status = tls_over(sock, job["tls"])
                    sock.close()
                except OSError as error:
                    status = type(error).__name__
                with lock:
                    counts[str(status)] = counts.get(str(status), 0) + 1

        threads = [threading.Thread(target=one) for _ in range(job["parallel"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"counts": counts}
    if op == "flood":
        # So many names, each asked for once, so many at a time.
        counts, lock, names = {}, threading.Lock(), iter(range(job["names"]))

        def some():
            while True:
                with lock:
                    number = next(names, None)
                if number is None:
                    return
                try:
                    sock, status, _ = connect(f"n{number}.{job['suffix']}:443")
                    sock.close()
                except OSError as error:
                    status = type(error).__name__
                with lock:
                    counts[str(status)] = counts.get(str(status), 0) + 1

        threads = [threading.Thread(target=some) for _ in range(job["parallel"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"counts": counts}
    if op == "hold":
        # Opens a tunnel and keeps it: later jobs speak through it by its name.
        sock, status, answer = connect(job["target"])
        HELD[job["as"]] = sock
        return {"status": status, "answer": text(answer)}
    if op == "dial":
        # Connects without any proxy, to a port of the loopback or a Unix socket, and keeps it.
        try:
            if "path" in job:
                sock = socket.socket(socket.AF_UNIX)
                sock.settimeout(LIMIT)
                sock.connect(job["path"])
            else:
                sock = dial(("127.0.0.1", job["port"]))
        except OSError as error:
            return {"error": type(error).__name__}
        HELD[job["as"]] = sock
        return {"dialled": True}
    if op == "say":
        sock = HELD[job["as"]]
        try:
            sock.sendall(job["text"].encode())
            return {"answer": text(sock.recv(65536))}
        except OSError as error:
            return {"error": type(error).__name__}
    if op == "serve":
        # A server inside, on a port that is named or that the system picks; for the life of the
        # driver.
        listener = socket.create_server(("127.0.0.1", job.get("port", 0)))

        def serve():
            while True:
                client, _ = listener.accept()
                client.sendall(b"dev server\n")
                client.close()

        threading.Thread(target=serve, daemon=True).start()
        return {"port": listener.getsockname()[1]}
    if op == "silent":
        # Connections to the HTTP proxy that never say a word.
        HELD[job["as"]] = [dial(proxy("HTTP_PROXY")) for _ in range(job["count"])]
        return {"open": len(HELD[job["as"]])}
    if op == "shell":
        done = subprocess.run(["/bin/sh", "-c", job["script"]], capture_output=True, text=True)
        return {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    if op == "slow":
        # Sends its text so many bytes at a time with a pause in between, until told to stop.
        sock = dial(proxy("HTTP_PROXY"))
        data, how = b"", "sent"
        try:
            for byte in job["text"].encode("latin-1"):
                sock.sendall(bytes([byte]))
                time.sleep(job["pause"])
        except OSError as error:
            how = type(error).__name__
        if how == "sent":
            data, how = read_to_end(sock)
        return {"answer": text(data), "how": how}
    if op == "descriptors":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(job["count"], hard), hard))
        return {"ok": hard >= job["count"]}
    if op == "drop":
        held = HELD.pop(job["as"])
        for sock in held if isinstance(held, list) else [held]:
            sock.close()
        return {}
    if op == "environment":
        return {"environment": dict(os.environ)}
    raise ValueError(op)


HELD = {}
LOCK = threading.Lock()


def answer(job):
    try:
        result = do(job)
    except Exception as error:  # Said, not hidden: the test judges it.
        result = {"error": f"{type(error).__name__}: {error}"}
    result["id"] = job.get("id")
    with LOCK:
        print(json.dumps(result), flush=True)


print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    threading.Thread(target=answer, args=(json.loads(line),)).start()
