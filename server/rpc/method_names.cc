#include "base/strings.h"
#include "google/protobuf/descriptor.h"
#include "server/rpc/server.h"
#include "server/rpc/services.h"

namespace lightcone::server {

const std::vector<const char*>& ServiceNames() {
  static const auto* const names = new std::vector<const char*>{
      "lightcone.v1.Backfill",    "lightcone.v1.Training", "lightcone.v1.Retrieval", "lightcone.v1.Collections",
      "lightcone.v1.Generations", "lightcone.v1.Jobs",     "lightcone.v1.Snapshots"};
  return *names;
}

std::vector<std::string> MethodNames() {
  std::vector<std::string> names;
  for (const char* name : ServiceNames()) {
    const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
      names.push_back(StrCat(service->name(), "/", service->method(i)->name()));
    }
  }
  return names;
}

}  // namespace lightcone::server
