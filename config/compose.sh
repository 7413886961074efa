#!/bin/sh
# Creates the secrets that compose.yaml uses, once each; existing files stay unchanged.
# Only you can open the folder; the files in it are readable, because the containers run as other users.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
chmod 700 secrets
for name in redis_password scope_secret admin_token; do
  [ -s "secrets/$name" ] || od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "secrets/$name"
  chmod 644 "secrets/$name"
done
[ -s secrets/encryption_keys ] || { printf 'k1:'; head -c 32 /dev/urandom | base64 | tr -d '\n'; } > secrets/encryption_keys
chmod 644 secrets/encryption_keys
