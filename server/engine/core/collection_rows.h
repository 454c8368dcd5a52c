// Rows of a collection on their way from one store to another: for a snapshot of chosen collections, and for a
// collection that a snapshot gives back under a new number.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/store.h"

namespace lightcone::server {

// Method in the records of requests that restored a collection. Such a record names a snapshot and the collection in
// it.
inline constexpr std::string_view kRestoreMethod = "RestoreCollection";

// Asked before each batch of about `bytes` is written. Its error ends the copying.
using CheckBatch = std::function<absl::Status(uint64_t bytes)>;

// Copies every row that DeleteKeysOf removes, under the number `to_number`; no value of these rows has the number in
// it. The record, the names, the audit log and the jobs of the collection are not among the rows. What was written
// before an error stays. PROCESS durability. DATA_LOSS names the table and key of a damaged row.
absl::Status CopyCollectionRows(const Store& from, uint32_t from_number, Store& to, uint32_t to_number,
                                const CheckBatch& check);

// Bytes of keys and values of the rows that CopyCollectionRows copies from the tables. Reads each of them, and asks
// `check` from time to time. Errors as CopyCollectionRows.
absl::StatusOr<uint64_t> CountCollectionBytes(const Store& from, uint32_t number, const CheckBatch& check);

// Makes a store in `folder`, which must not exist, of the chosen collections of `from` and of what is the server's.
// Numbers stay, and new collections get numbers above them. Damaged rows of requests, jobs and the audit log are left
// out, and so are the requests that restored a collection: they name collections of other snapshots. Durable. ABORTED
// when a collection of these numbers is gone; else as CopyCollectionRows. REQUIRES: `numbers` is not empty.
absl::Status WriteChosenStore(const Store& from, const std::set<uint32_t>& numbers, const std::string& folder,
                              const StoreOptions& options, const CheckBatch& check);

}  // namespace lightcone::server
