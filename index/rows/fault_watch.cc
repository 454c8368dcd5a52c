#include "index/rows/fault_watch.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/dcheck.h"

namespace lightcone {

// One watched mapping. The handler reads it without a lock: `version` is odd while the rest changes, and a slot that
// changes meanwhile is not the one whose memory the interrupted thread reads.
struct FaultWatch::Slot {
  std::atomic<uint32_t> version{0};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};  // 0: unused
  std::atomic<std::atomic<bool>*> damaged{nullptr};

  void Set(uintptr_t from, uintptr_t to, std::atomic<bool>* flag) {
    version.fetch_add(1);
    begin.store(from);
    end.store(to);
    damaged.store(flag);
    version.fetch_add(1);
  }
};

namespace {

constexpr size_t kSlotsABlock = 512;

// Never freed, so that the handler may walk it at any time; slots are used again.
struct SlotBlock {
  FaultWatch::Slot slots[kSlotsABlock];
  SlotBlock* next = nullptr;  // set before the block is published
};

std::atomic<SlotBlock*> first_block{nullptr};
struct sigaction previous_action;

absl::Mutex slots_mu(absl::kConstInit);

std::vector<FaultWatch::Slot*>& FreeSlots() ABSL_EXCLUSIVE_LOCKS_REQUIRED(slots_mu) {
  static auto* const slots = new std::vector<FaultWatch::Slot*>();
  return *slots;
}

// True when the fault was in a watched mapping, whose page can be read now.
bool Mend(uintptr_t address) {
  for (SlotBlock* block = first_block.load(); block != nullptr; block = block->next) {
    for (FaultWatch::Slot& slot : block->slots) {
      const uint32_t version = slot.version.load();
      const uintptr_t begin = slot.begin.load(), end = slot.end.load();
      std::atomic<bool>* const damaged = slot.damaged.load();
      if (version % 2 != 0 || slot.version.load() != version || address < begin || address >= end) continue;
      // First the flag: whoever reads the zeros finds it raised.
      damaged->store(true);
      const uintptr_t page = address & ~(static_cast<uintptr_t>(::getpagesize()) - 1);
      return ::syscall(SYS_mmap, page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
                       -1, 0) == static_cast<long>(page);
    }
  }
  return false;
}

void OnBusError(int signal, siginfo_t* info, void*) {
  const int saved = errno;
  const bool by_somebody = info->si_code <= 0;  // kill(): no address
  if (by_somebody || !Mend(reinterpret_cast<uintptr_t>(info->si_addr))) {
    // The access, or the signal, comes again and meets whoever was there before.
    ::sigaction(SIGBUS, &previous_action, nullptr);
    if (by_somebody) ::raise(signal);
  }
  errno = saved;
}

void InstallHandler() {
  struct sigaction action {};
  action.sa_sigaction = &OnBusError;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &previous_action);
}

FaultWatch::Slot* TakeSlot() {
  absl::MutexLock lock(&slots_mu);
  std::vector<FaultWatch::Slot*>& free = FreeSlots();
  if (free.empty()) {
    auto* const block = new SlotBlock();
    for (FaultWatch::Slot& slot : block->slots) free.push_back(&slot);
    block->next = first_block.load();
    if (block->next == nullptr) InstallHandler();
    first_block.store(block);
  }
  FaultWatch::Slot* const slot = free.back();
  free.pop_back();
  return slot;
}

}  // namespace

FaultWatch::FaultWatch(const void* begin, size_t bytes, std::atomic<bool>* damaged) : slot_(TakeSlot()) {
  // The last page of a mapping belongs to it as a whole.
  const uintptr_t page = static_cast<uintptr_t>(::getpagesize());
  const uintptr_t from = reinterpret_cast<uintptr_t>(begin);
  LC_DCHECK(from % page == 0 && damaged != nullptr);
  slot_->Set(from, (from + bytes + page - 1) / page * page, damaged);
}

FaultWatch::~FaultWatch() {
  slot_->Set(0, 0, nullptr);
  absl::MutexLock lock(&slots_mu);
  FreeSlots().push_back(slot_);
}

}  // namespace lightcone
