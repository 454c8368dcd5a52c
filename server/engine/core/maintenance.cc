#include "server/engine/core/maintenance.h"

#include <memory>
#include <vector>

#include "base/status.h"
#include "server/engine/collection/model_watch.h"
#include "spdlog/spdlog.h"

namespace lightcone::server {
namespace {

constexpr absl::Duration kEvery = absl::Seconds(1);
constexpr int kBackgroundNice = 10;  // searches and writes come first

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

void LearnAll(const Context& context) {
  std::vector<std::weak_ptr<const Served>> all;  // as above
  for (const ServedPtr& served : context.catalog.All()) all.push_back(served);
  for (const auto& one : all) {
    const ServedPtr served = one.lock();
    if (served == nullptr) continue;
    const auto cancelled = [&] { return context.ending.load() || served->collection->dropped(); };
    const absl::Status status = served->model_watch->Learn(*served->collection, *served->samples, cancelled);
    if (status.ok() || absl::IsCancelled(status)) continue;  // An error of the store comes again in a second.
    spdlog::debug("collection '{}': {}", served->collection->name(), MessageOf(status));
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
      carrier_(kBackgroundNice, kEvery,
               [&context] {
                 CarryAll(context);
                 return kEvery;
               }),
      learner_(kBackgroundNice, kEvery, [&context] {
        LearnAll(context);
        return kEvery;
      }) {}

}  // namespace lightcone::server
