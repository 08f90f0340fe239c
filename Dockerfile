# pgdyno in a container, with the PostgreSQL that it starts itself.
#
#     docker build -t pgdyno .
#     docker run --rm -v "$PWD:/work" pgdyno demo
#     docker run --rm -v "$PWD:/work" pgdyno investigate postgresql://user@host/db
#
# It runs as an ordinary account with the user ID 1000, which must be able to write to the mounted
# directory. Disks that are slowed down or cut (drills of power cuts, --data-disk other than plain)
# need root, loop devices and FUSE: --user root --privileged.

FROM rust:1-slim-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN python3 -m venv /opt/pgdyno \
 && /opt/pgdyno/bin/pip install --no-cache-dir -r requirements.txt \
 && PATH="/opt/pgdyno/bin:$PATH" /opt/pgdyno/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
 && /opt/pgdyno/bin/pip uninstall -y maturin

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 e2fsprogs fuse3 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 1000 --create-home --shell /usr/sbin/nologin pgdyno \
 && install --directory --owner=pgdyno --group=pgdyno /work
COPY --from=build /opt/pgdyno /opt/pgdyno
ENV PATH="/opt/pgdyno/bin:$PATH"
USER pgdyno
WORKDIR /work
ENTRYPOINT ["pgdyno"]
