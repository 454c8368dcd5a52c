// Keeps flushes from beginning while an error stops RocksDB's background work. RocksDB 7.8.3 forgets a flush that it
// scheduled before it took an error and that begins after that: the memtable stays marked as queued, and DB::Resume
// waits for its flush for ever. So flushes wait at a gate in front of RocksDB: it closes before RocksDB takes an error,
// and opens when DB::Resume allows flushes again. Threads: every method is safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "rocksdb/env.h"

namespace lightcone {

class FlushGate {
 public:
  // `base` must outlive the gate; nullptr: the machine's environment. `running` gives the number of flushes that
  // RocksDB has begun; Close calls it without a lock.
  FlushGate(rocksdb::Env* base, std::function<uint64_t()> running);
  ~FlushGate();

  rocksdb::Env* env() const { return env_.get(); }  // environment for the database, which the gate must outlive

  // Before RocksDB takes an error that stops background work: flushes that have not begun wait from now on. Returns
  // once those that passed the gate before have begun, or after some seconds. Must not hold what a flush needs to
  // begin.
  void Close();
  // Runs `resume`, which is DB::Resume. That waits for the flushes that wait here, once it has told RocksDB to let them
  // through; so they pass some time after it began. Opens the gate where it succeeds. BUSY where the gate was closed
  // meanwhile: it stays closed, and another DB::Resume is due. One at a time.
  rocksdb::Status Resume(const std::function<rocksdb::Status()>& resume);
  // Opens the gate for good: the database ends, or nothing will resume it.
  void End();

 private:
  class Jobs;
  class State;

  const std::function<uint64_t()> running_;
  const std::shared_ptr<State> state_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace lightcone
