#include "server/engine/core/maintenance.h"

#include <memory>
#include <vector>

namespace lightcone::server {
namespace {

constexpr absl::Duration kEvery = absl::Seconds(1);
constexpr int kCarrierNice = 10;  // searches and writes come first

void TrimAll(const Context& context) {
  const std::vector<ServedPtr> all = context.catalog.All();
  // What fails now is tried again in a second. A store that keeps failing shows itself in every write.
  for (const ServedPtr& served : all) (void)served->collection->TrimChanges();
  for (const ServedPtr& served : all) (void)served->collection->payloads().Sweep();
}

void CarryAll(const Context& context) {
  std::vector<std::weak_ptr<const Served>> all;  // A drop does not wait until the others are carried.
  for (const ServedPtr& served : context.catalog.All()) all.push_back(served);
  for (const auto& one : all) {
    const ServedPtr served = one.lock();
    // Errors are logged where they happen, and the work is tried again later.
    if (served != nullptr) (void)served->collection->AdaptGalleries([&] { return context.ending.load(); });
  }
}

}  // namespace

Maintenance::Maintenance(Context& context)
    : trimmer_(/*niceness=*/0, kEvery,
               [this, &context] {
                 absl::MutexLock lock(&trim_mu_);
                 TrimAll(context);
                 return kEvery;
               }),
      carrier_(kCarrierNice, kEvery, [&context] {
        CarryAll(context);
        return kEvery;
      }) {}

}  // namespace lightcone::server
