// A server in a process of its own for tests: rpc_reflection_server DATA_FOLDER.
#include <cstdio>

#include "base/status.h"
#include "server/app/serve.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: rpc_reflection_server DATA_FOLDER\n");
    return 2;
  }
  lightcone::server::ServerConfig config;
  config.listen = "127.0.0.1:0";
  config.http_listen = "127.0.0.1:0";
  config.drain_seconds = 10;
  config.engine.data_folder = argv[1];
  const absl::Status status = lightcone::server::RunServer(config, nullptr);
  if (!status.ok()) std::fprintf(stderr, "%s\n", lightcone::MessageOf(status).c_str());
  return status.ok() ? 0 : 1;
}
