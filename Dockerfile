# Two stages: everything that builds, and what runs. Data lives in /data; mount a volume there.
FROM debian:12 AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends make ca-certificates >/dev/null
WORKDIR /src
COPY deploy/install-deps.sh deploy/install-deps.sh
RUN deploy/install-deps.sh build
COPY . .
RUN make build

FROM debian:12-slim
COPY deploy/install-deps.sh /tmp/install-deps.sh
RUN /tmp/install-deps.sh runtime runtime-model && rm -rf /tmp/install-deps.sh /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /data lightcone \
 && install -d -o lightcone -g lightcone /data
COPY --from=build /src/build/bin/lightcone /src/build/bin/lightcone-model /src/build/bin/lightcone-research /usr/local/bin/
USER 10001
ENV LIGHTCONE_DATA=/data
VOLUME /data
EXPOSE 7700 7701
# Not /readyz: a long start or a drain is no reason to be killed.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD curl -fsS http://127.0.0.1:7701/healthz || exit 1
# Inside a container loopback reaches nobody. What the ports reach is decided where they are published.
CMD ["lightcone", "serve", "--listen", "0.0.0.0:7700", "--http-listen", "0.0.0.0:7701", "--insecure"]
