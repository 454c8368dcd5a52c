// A store that hands every call to another one, for tests that come between some of them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/store.h"

namespace lightcone {

// Threads: as the other store.
class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(std::unique_ptr<Store> inner) : inner_(std::move(inner)) {}

  absl::Status Write(const WriteBatch& batch, Durability durability) override {
    return inner_->Write(batch, durability);
  }
  absl::Status CheckGrowth(uint64_t bytes) const override { return inner_->CheckGrowth(bytes); }
  void MakeRoom(uint64_t bytes) override { inner_->MakeRoom(bytes); }
  absl::Status Sync() override { return inner_->Sync(); }
  absl::StatusOr<std::string> Get(Table table, std::string_view key) const override { return inner_->Get(table, key); }
  std::vector<absl::StatusOr<std::string>> MultiGet(Table table, std::span<const std::string> keys) const override {
    return inner_->MultiGet(table, keys);
  }
  std::unique_ptr<Iterator> Scan(Table table, std::string_view begin, std::string_view end) const override {
    return inner_->Scan(table, begin, end);
  }
  absl::Status DeleteRange(Table table, std::string_view begin, std::string_view end) override {
    return inner_->DeleteRange(table, begin, end);
  }
  absl::Status Checkpoint(const std::string& folder) override { return inner_->Checkpoint(folder); }
  StoreStats Stats() const override { return inner_->Stats(); }

 private:
  const std::unique_ptr<Store> inner_;
};

}  // namespace lightcone
