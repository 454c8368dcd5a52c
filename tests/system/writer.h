// A client that writes random batches over items of its own until its server dies, and the oracle of what it was told.
// Threads: Run in one; oracle() while it does not run.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"
#include "tests/system/oracle.h"

namespace lightcone {

inline std::unique_ptr<client::Client> ClientAt(const std::string& address) {
  client::ClientOptions options;
  options.address = address;
  options.retries_max = 0;  // the oracle decides what an unanswered call may have done
  return client::Client::Connect(options).value();
}

class Writer {
 public:
  struct Plan {
    uint64_t items = 0;  // number n owns n * items .. (n + 1) * items - 1
    size_t batch_items_max = 0;
    uint64_t upserts_percent = 80;  // the others are deletes
  };

  Writer(int number, const Plan& plan)
      : number_(static_cast<uint64_t>(number)), plan_(plan), random_(static_cast<uint64_t>(number) + 1) {}
  virtual ~Writer() = default;

  void Run(const std::string& address) {
    const auto client = ClientAt(address);
    for (bool alive = true; alive;) {
      const std::set<uint64_t> items = SomeItems();
      const Version version = ++version_;
      if (random_() % 100 < plan_.upserts_percent) {
        alive = Record(Upsert(*client, items, version), items, version, version);
      } else {
        alive = Record(Delete(*client, items), items, 0, version);
      }
    }
  }

  Oracle& oracle() { return oracle_; }

 protected:
  virtual absl::Status Upsert(client::Client& client, const std::set<uint64_t>& items, Version version) = 0;
  virtual absl::Status Delete(client::Client& client, const std::set<uint64_t>& items) = 0;
  // An answer by which the server says that it has written nothing.
  virtual bool Refused(const absl::Status& status) const { return false; }
  // `call`: the number of the call, which grows; of an upsert it is the version.
  virtual void Acknowledged(const std::set<uint64_t>& items, Version call) {}

  std::mt19937_64& random() { return random_; }

 private:
  std::set<uint64_t> SomeItems() {
    std::set<uint64_t> items;
    const size_t count = 1 + random_() % plan_.batch_items_max;
    while (items.size() < count) items.insert(number_ * plan_.items + random_() % plan_.items);
    return items;
  }

  bool Record(const absl::Status& status, const std::set<uint64_t>& items, Version version, Version call) {
    if (status.ok()) {
      for (const uint64_t item : items) oracle_.Acknowledge(item, version);
      Acknowledged(items, call);
      return true;
    }
    if (Refused(status)) return true;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    for (const uint64_t item : items) oracle_.LeaveOpen(item, version, static_cast<int64_t>(call));
    return false;
  }

  const uint64_t number_;
  const Plan plan_;
  std::mt19937_64 random_;
  Version version_ = 0;
  Oracle oracle_;
};

}  // namespace lightcone
