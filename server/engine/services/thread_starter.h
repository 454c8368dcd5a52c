// Starts threads at the priority of the thread that made it. A thread that stands back gives its low priority to those
// that it starts, and the system lets none raise its own.
// Threads: Start is safe from any thread; constructor and destructor belong to the owner.
#pragma once

#include <exception>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace lightcone::server {

class ThreadStarter {
 public:
  ThreadStarter() : starting_([this] { Run(); }) {}
  ~ThreadStarter();  // REQUIRES: no Start is running.
  ThreadStarter(const ThreadStarter&) = delete;
  ThreadStarter& operator=(const ThreadStarter&) = delete;

  // Throws std::system_error where the system gives no thread.
  std::thread Start(std::function<void()> work);

 private:
  struct Order {
    std::function<void()> work;
    std::thread started;
    std::exception_ptr error;
    bool done = false;
  };

  void Run();

  absl::Mutex mu_;
  Order* order_ ABSL_GUARDED_BY(mu_) = nullptr;  // the caller's, which waits for it
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread starting_;  // the last member: it uses the others
};

}  // namespace lightcone::server
