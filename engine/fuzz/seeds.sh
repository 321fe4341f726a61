#!/bin/sh
# Writes a few well-formed and a few nearly well-formed inputs for each target below DIRECTORY.
# Usage: sh engine/fuzz/seeds.sh DIRECTORY
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1

seed() { # TARGET NAME PRINTF-FORMAT
  mkdir -p "$out/$1"
  # shellcheck disable=SC2059 # the format is the content
  printf "$3" >"$out/$1/$2"
}

seed http_head get 'GET http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n'
seed http_head connect 'CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n'
seed http_head chunked 'POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n'
seed http_head smuggled 'POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n'
seed http_head websocket 'GET http://[2001:db8::1]:8080/ HTTP/1.1\r\nHost: [2001:db8::1]:8080\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
seed http_head origin 'GET / HTTP/1.0\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n'
seed http_head response 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\n'
seed http_head folded 'GET / HTTP/1.1\r\nHost: a.example\r\n b\r\n\r\n'

seed socks5 name '\005\001\000\003\011a.example\001\273'
seed socks5 v4 '\005\001\000\001\300\000\002\001\000\120'
seed socks5 v6 '\005\001\000\004\040\001\015\270\000\000\000\000\000\000\000\000\000\000\000\001\001\273'
seed socks5 nul '\005\001\000\003\012evil\000b.net\001\273'
seed socks5 bind '\005\002\000\001\300\000\002\001\000\120'

seed dns_message a '\022\064\001\000\000\001\000\000\000\000\000\000\001a\007example\003com\000\000\001\000\001'
seed dns_message aaaa '\022\064\001\000\000\001\000\000\000\000\000\000\001a\007example\003com\000\000\034\000\001'
seed dns_message edns '\022\064\001\000\000\001\000\000\000\000\000\001\001a\007example\003com\000\000\001\000\001\000\000\051\004\320\000\000\000\000\000\000'
seed dns_message loop '\022\064\001\000\000\001\000\000\000\000\000\000\300\014\000\001\000\001'
seed dns_message pointer '\022\064\001\000\000\002\000\000\000\000\000\000\001a\007example\003com\000\000\001\000\001\300\014\000\001\000\001'
seed dns_message ptr '\022\064\001\000\000\001\000\000\000\000\000\000\0011\0012\00218\003198\007in-addr\004arpa\000\000\014\000\001'

seed client_hello named '\026\003\001\000\107\001\000\000\103\003\003aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\000\000\004\023\001\023\002\001\000\000\026\000\000\000\020\000\016\000\000\013example.com\000\053\000\000'
seed client_hello nameless '\026\003\001\000\055\001\000\000\051\003\003aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\000\000\002\023\001\001\000'
seed client_hello split '\026\003\001\000\001\001\026\003\001\000\003\000\000\051'
cp "$here/../src/egress/testdata/openssl-3.client-hello" "$out/client_hello/openssl"

seed pattern leading '*.example.com'
seed pattern middle 'bedrock.*.amazonaws.com:443'
seed pattern suffix '*.co.uk'
seed pattern v4 '127.1'
seed pattern v6 '[::ffff:127.0.0.1]:80'
seed pattern unicode 'b\303\274cher.example'
seed pattern invisible 'a\342\200\213b.example'

seed guard_frame empty '\000\000\000\000'
seed guard_frame short '\003\000\000\000\001\002\003'
seed guard_frame long '\377\377\377\377'

seed git_content init '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n'
seed git_content clone '[remote "origin"]\n\turl = https://a.example/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
seed git_content quoted '[user]\n\tname = "a \\"b\\" c" \\\n  d # e\n'
seed git_content hooks '[core] hooksPath = x'
seed git_content module 'modules/a/b'
seed git_content tree 'worktrees/x'
