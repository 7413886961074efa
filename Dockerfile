# syntax=docker/dockerfile:1

FROM python:3.13.14-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY proxy proxy
# Only wheels, so that nothing is compiled: the image has no compiler, and needs none.
RUN pip wheel --no-deps --wheel-dir /wheels . \
    && python -m venv --without-pip /opt/replay \
    && pip --python /opt/replay/bin/python install --only-binary=:all: /wheels/*.whl

FROM python:3.13.14-slim-bookworm
ENV PATH=/opt/replay/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    REPLAY_LISTEN=0.0.0.0:8080 \
    REPLAY_ADMIN_LISTEN=0.0.0.0:9090
COPY --from=build /opt/replay /opt/replay
# A number, so that Kubernetes can tell that it is not root.
USER 65532:65532
EXPOSE 8080 9090
# No proxy from the environment on the way to ourselves.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['REPLAY_ADMIN_LISTEN'].rpartition(':')[2] + '/livez', timeout=2)"]
ENTRYPOINT ["reasoning-replay"]
CMD ["serve"]
