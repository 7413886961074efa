#!/bin/sh
# Makes the secrets that compose.yaml hands out, once each; what is there is left as it is.
# The folder is for you alone; the files in it are readable, since the containers' users are others.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
chmod 700 secrets
for name in redis_password scope_secret admin_token; do
  [ -s "secrets/$name" ] || od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "secrets/$name"
  chmod 644 "secrets/$name"
done
