FROM python:3.12-slim

RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends bash ca-certificates git \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --create-home --shell /bin/bash nightporter \
 && install --directory --owner=nightporter --mode=0700 /var/lib/nightporter

WORKDIR /opt/nightporter
COPY requirements.txt ./
RUN python -m venv .venv && .venv/bin/pip install --no-cache-dir --require-hashes --requirement requirements.txt
COPY . ./
RUN .venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation --editable . \
 && .venv/bin/python -m compileall -q nightporter gateway router identity sandbox_runner agent workspace_store

ENV PATH=/opt/nightporter/.venv/bin:$PATH \
    NIGHTPORTER_HOME=/var/lib/nightporter \
    NIGHTPORTER_HTTP__LISTEN=0.0.0.0:8787 \
    NIGHTPORTER_EMAIL__LISTEN=0.0.0.0:8025
USER nightporter
VOLUME /var/lib/nightporter
EXPOSE 8787 8025
STOPSIGNAL SIGTERM
CMD ["nightporter", "up"]
