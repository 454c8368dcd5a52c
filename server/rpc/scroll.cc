#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "server/rpc/convert.h"
#include "server/rpc/error.h"
#include "server/rpc/streams.h"
#include "server/rpc/unary_call.h"

namespace lightcone::server {
namespace {

constexpr std::string_view kScrollMethod = "Retrieval/Scroll";
constexpr int64_t kPageItemsDefault = 1'000;
constexpr int64_t kPageBytesMax = 3 << 20;

// Busy from the beginning of a page until the transport has taken it, so that a drain delivers the pages that were
// made. Exactly one thing happens at a time (a job on the lane, or a write in the transport), so the state needs no
// lock.
class ScrollCall final : public grpc::ServerWriteReactor<v1::ScrollResponse> {
 public:
  ScrollCall(RpcCore* core, grpc::CallbackServerContext* context, const v1::ScrollRequest* request)
      : core_(core),
        call_(*context),
        request_(*request),  // the transport keeps it until OnDone
        started_(absl::Now()),
        parts_(request->with_vector(), FromWire(request->payload())),
        collection_(request->collection()),
        token_(request->token()) {
    context_.deadline = DeadlineOf(*context);
    context_.cancelled = [this] { return cancelled_.load(std::memory_order_relaxed); };
    context_.answer_bytes_max = kPageBytesMax;
  }

  void Start(const grpc::CallbackServerContext& context) {
    absl::StatusOr<Caller> caller = core_->gate().Admit(context, kScrollMethod, &context_);
    if (!caller.ok()) return End(caller.status());
    caller_ = *std::move(caller);
    Next();
  }

  void Next() {
    const absl::Status admitted = core_->Enter();
    if (!admitted.ok()) return End(admitted);
    core_->read_lane().Submit({[this](const absl::Status& status) { Page(status); }, context_.deadline});
  }

  void OnWriteDone(bool ok) override {
    core_->Leave();
    if (!ok) return End(MakeStatus(absl::StatusCode::kCancelled, "the client went away"));
    if (last_) return End(absl::OkStatus());
    Next();
  }

  void OnCancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  void OnDone() override { delete this; }

 private:
  void Page(const absl::Status& admitted) {
    RpcCore* const core = core_;  // the object may be gone once the transport has the page or the status
    const absl::Status status = admitted.ok() ? Guarded([this] { return MakePage(); }) : admitted;
    if (status.ok() && !(page_.items_size() == 0 && last_)) {
      StartWrite(&page_);  // OnWriteDone leaves
      return;
    }
    End(status);
    core->Leave();
  }

  absl::Status MakePage() {
    LC_RETURN_IF_ERROR(StillWanted(context_, core_->Now()));
    if (!filter_.has_value()) {
      LC_RETURN_IF_ERROR(core_->gate().CheckRequest(caller_, request_));
      if (request_.has_order_by()) {
        LC_ASSIGN_OR_RETURN(order_, FromWire(request_.order_by()));
      }
      LC_ASSIGN_OR_RETURN(filter_, FilterOf(request_));
    }
    const int64_t items_default = std::min(kPageItemsDefault, core_->engine().options().limits.page_items_max);
    int64_t items = request_.page_size() == 0 ? items_default : request_.page_size();
    const uint64_t left = request_.limit() == 0 ? UINT64_MAX : request_.limit() - sent_;
    items = static_cast<int64_t>(std::min<uint64_t>(static_cast<uint64_t>(items), left));
    Engine& engine = core_->engine();
    context_.meter = core_->gate().MeterOf(caller_);  // Each page may be refused.
    LC_ASSIGN_OR_RETURN(ScrollPage page,
                        order_ ? engine.ScrollOrdered(collection_, *order_, *filter_, items, token_, parts_, context_)
                               : engine.Scroll(collection_, *filter_, items, token_, parts_, context_));
    // A token goes on in the collection that it is of.
    if (context_.sees && !context_.sees(page.collection)) {
      return InvalidField("token", "of another collection", "a token of a scroll that the caller may make");
    }
    collection_ = std::move(page.collection);
    page_.Clear();
    for (StoredItem& item : page.items) ToWire(std::move(item), page_.add_items());
    page_.set_token(page.token);
    token_ = page_.token();
    sent_ += page_.items_size();
    last_ = token_.empty() || (request_.limit() != 0 && sent_ >= request_.limit());
    return absl::OkStatus();
  }

  void End(const absl::Status& status) {
    core_->Observe(call_, context_, kScrollMethod, &request_, status, started_);
    caller_.slot.Release();
    Finish(ToGrpc(status));
  }

  RpcCore* const core_;
  const grpc::CallbackServerContext& call_;
  const v1::ScrollRequest& request_;
  const absl::Time started_;
  CallContext context_;
  Caller caller_;
  std::atomic<bool> cancelled_{false};
  const ItemParts parts_;
  std::optional<std::optional<FilterNode>> filter_;  // converted with the first page
  std::optional<OrderBy> order_;                     // likewise
  std::string collection_;  // as the request names it, then as the first page did: an alias may point elsewhere later
  std::string token_;
  uint64_t sent_ = 0;
  bool last_ = false;
  v1::ScrollResponse page_;
};

}  // namespace

grpc::ServerWriteReactor<v1::ScrollResponse>* StartScroll(RpcCore* core, grpc::CallbackServerContext* context,
                                                          const v1::ScrollRequest* request) {
  auto* call = new ScrollCall(core, context, request);
  call->Start(*context);
  return call;
}

}  // namespace lightcone::server
