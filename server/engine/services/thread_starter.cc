#include "server/engine/services/thread_starter.h"

#include <utility>

#include "base/dcheck.h"

namespace lightcone::server {

ThreadStarter::~ThreadStarter() {
  {
    absl::MutexLock lock(&mu_);
    LC_DCHECK(order_ == nullptr);
    stopping_ = true;
  }
  starting_.join();
}

std::thread ThreadStarter::Start(std::function<void()> work) {
  Order order;
  order.work = std::move(work);
  {
    absl::MutexLock lock(&mu_);
    const auto free = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return order_ == nullptr; };
    mu_.Await(absl::Condition(&free));
    order_ = &order;
    mu_.Await(absl::Condition(&order.done));
  }
  if (order.error) std::rethrow_exception(order.error);
  return std::move(order.started);
}

void ThreadStarter::Run() {
  absl::MutexLock lock(&mu_);
  const auto called = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_ || order_ != nullptr; };
  while (true) {
    mu_.Await(absl::Condition(&called));
    if (order_ == nullptr) return;
    try {
      order_->started = std::thread(std::move(order_->work));
    } catch (...) {
      order_->error = std::current_exception();
    }
    order_->done = true;
    order_ = nullptr;
  }
}

}  // namespace lightcone::server
