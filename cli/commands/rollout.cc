// lightcone rollout: leads an operator from a model to a generation that serves and a gallery that follows, step by
// step: what each will do, what it costs, how to undo it. It looks at the server before every step, so it can be
// stopped anywhere and run again.
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/commands/canary.h"
#include "cli/commands/put_adapter.h"
#include "cli/commands/register_model.h"
#include "cli/json/message_json.h"
#include "cli/json/rollout_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

constexpr uint32_t kSampleItems = 2'000;
constexpr double kMoreFailures = 0.01;  // of a canary's searches than of the others, that are no reason to stop

struct RolloutFlags {
  std::string collection, model, reason;
  uint32_t generation = 0, parent = 0, reference = 0, embed = kSampleItems;
  std::string adapter = "auto", label_field;
  std::optional<double> tolerance;
  bool no_calibration = false;
  std::optional<double> embed_rate;
  double p99_ms_max = 0, canary_share = 0;
  uint32_t canary_searches = 1'000;
  bool yes = false, force = false, no_backfill = false;
};

// A step goes on from what its job came to: --timeout is for its calls.
client::CallOptions Forever() {
  client::CallOptions call;
  call.timeout = absl::InfiniteDuration();
  return call;
}

// One step as an operator is told about it.
struct Step {
  std::string title, does, costs, undo;
};

class Rollout {
 public:
  Rollout(Context& context, const RolloutFlags& flags, client::Client* client)
      : context_(context), flags_(flags), client_(client), generation_(flags.generation) {}

  absl::Status Run() {
    LC_RETURN_IF_ERROR(Look());
    if (generation_ == 0) LC_RETURN_IF_ERROR(Register());
    LC_RETURN_IF_ERROR(FindOut());
    if (now_.state() == v1::GENERATION_STATE_RETIRED) {
      return FailedPrecondition(StrCat("generation ", generation_, " is retired"));
    }
    LC_RETURN_IF_ERROR(TakeUp());
    LC_RETURN_IF_ERROR(PutModelAdapter());
    LC_RETURN_IF_ERROR(FitAdapters());
    LC_RETURN_IF_ERROR(Validate());
    LC_RETURN_IF_ERROR(Canary());
    LC_RETURN_IF_ERROR(Activate());
    if (!flags_.no_backfill) LC_RETURN_IF_ERROR(Backfill());
    Say(StrCat("\ngeneration ", generation_, " of '", flags_.collection,
               "' is rolled out. Watch it: `lightcone status`, ", "`lightcone backfill status ", flags_.collection,
               "`, the console.\nBack in milliseconds: `lightcone ", "generation rollback ", flags_.collection,
               "`.\n"));
    if (context_.json)
      context_.PrintJson({{"collection", flags_.collection}, {"generation", generation_}, {"steps", done_}});
    return absl::OkStatus();
  }

 private:
  void Say(std::string_view text) const {
    if (!context_.json) context_.Print(text);
  }

  void Skip(const std::string& title, const std::string& why) {
    Say(StrCat("\n== ", title, ": not needed, ", why, "\n"));
    done_.push_back({{"step", title}, {"did", false}, {"why", why}});
  }

  // Tells about a step and asks. CANCELLED where the operator says no.
  absl::Status Propose(const Step& step) {
    Say(StrCat("\n== ", step.title, "\n   does   ", step.does, "\n   costs  ", step.costs, "\n   undo   ", step.undo,
               "\n"));
    if (flags_.yes) return absl::OkStatus();
    Say("   go on? [y/N] ");
    std::fflush(stdout);
    std::string answer;
    std::getline(std::cin, answer);
    if (answer == "y" || answer == "Y" || answer == "yes") return absl::OkStatus();
    return MakeStatus(
        absl::StatusCode::kCancelled,
        StrCat("stopped before '", step.title, "'; nothing of it has been done. To go on: `lightcone rollout ",
               flags_.collection,
               flags_.model.empty() ? StrCat(" --generation ", generation_) : StrCat(" --model ", flags_.model),
               flags_.parent > 0 ? StrCat(" --parent ", flags_.parent) : "", "` and the other flags of this call"));
  }
  void Done(const Step& step) { done_.push_back({{"step", step.title}, {"did", true}}); }

  // The collection, its generations, what serves.
  absl::Status Look() {
    v1::CollectionsGetRequest get;
    get.set_name(flags_.collection);
    LC_ASSIGN_OR_RETURN(const v1::CollectionsGetResponse collection, client_->GetCollection(get));
    active_ = collection.collection().active_generation();
    items_ = collection.collection().items();
    return absl::OkStatus();
  }
  absl::Status FindOut() {
    v1::GenerationsGetRequest get;
    get.set_collection(flags_.collection);
    get.set_generation(generation_);
    LC_ASSIGN_OR_RETURN(v1::GenerationsGetResponse response, client_->GetGeneration(get));
    now_ = std::move(*response.mutable_generation());
    return absl::OkStatus();
  }

  // The newest generation of that model and parent, none older than what serves, that is not retired, which an earlier
  // run registered. The manifest tells a model by the checksum of its encoder, and the server keeps its text.
  absl::Status FindRegistered(const v1::RegisterRequest& request) {
    v1::GenerationsListRequest list;
    list.set_collection(flags_.collection);
    LC_ASSIGN_OR_RETURN(const v1::GenerationsListResponse all, client_->ListGenerations(list));
    for (const v1::GenerationInfo& one : all.generations()) {
      if (one.state() != v1::GENERATION_STATE_RETIRED && one.generation() >= active_ &&
          one.parent() == request.parent() && one.has_encoder() && one.manifest_json() == request.manifest_json()) {
        generation_ = std::max(generation_, one.generation());
      }
    }
    return absl::OkStatus();
  }

  absl::Status Register() {
    v1::RegisterRequest request;
    request.set_collection(flags_.collection);
    request.set_parent(flags_.parent);
    request.set_expects_adapter(flags_.parent == 0);
    LC_RETURN_IF_ERROR(SetModelFolder(flags_.model, "", &request));
    const std::string title = "register the model";
    LC_RETURN_IF_ERROR(FindRegistered(request));
    if (generation_ != 0) return Skipped(title, StrCat("generation ", generation_, " holds it already"));
    const Step step{
        title,
        StrCat("adds the model in '", flags_.model, "' to '", flags_.collection, "' as its next generation",
               flags_.parent > 0 ? StrCat(", trained to be compatible with generation ", flags_.parent) : ""),
        StrCat(Bytes(request.encoder().size()), " for its encoder; nothing serves by it yet"),
        "`lightcone generation retire`"};
    LC_RETURN_IF_ERROR(Propose(step));
    LC_ASSIGN_OR_RETURN(const v1::RegisterResponse response, client_->RegisterGeneration(request));
    generation_ = response.generation().generation();
    Say(StrCat("   generation ", generation_, "\n"));
    Done(step);
    return absl::OkStatus();
  }

  // A draft that a training left.
  absl::Status TakeUp() {
    if (now_.state() != v1::GENERATION_STATE_DRAFT) return absl::OkStatus();
    const Step step{"take up the draft",
                    StrCat("makes draft ", generation_, " of '", flags_.collection, "' a generation like others"),
                    "nothing; nothing serves by it yet", "`lightcone generation retire`"};
    LC_RETURN_IF_ERROR(Propose(step));
    v1::RegisterRequest request;
    request.set_collection(flags_.collection);
    request.set_draft(generation_);
    LC_RETURN_IF_ERROR(client_->RegisterGeneration(request).status());
    Done(step);
    return FindOut();
  }

  // What the model's training left for the items of its old model.
  absl::Status PutModelAdapter() {
    if (flags_.model.empty() || flags_.adapter == "never") return absl::OkStatus();
    const std::string title = "put the model's adapter";
    LC_ASSIGN_OR_RETURN(const ModelAdapter own,
                        FindModelAdapter(*client_, flags_.collection, flags_.model, flags_.parent, generation_));
    if (!own.note.empty()) {
      Say(StrCat("\n== ", title, ": ", own.note, "\n"));
      done_.push_back({{"step", title}, {"did", false}, {"why", own.note}});
    }
    if (own.file.empty()) return absl::OkStatus();
    LC_RETURN_IF_ERROR(ListAdapters());
    if (HasAdapter(own.from, generation_)) return Skipped(title, "the pair has one");
    const Step step{
        title, StrCat("puts the item adapter ", own.from, " -> ", generation_, " in '", own.file, "'"),
        "a little of each search of older items, until they are carried over in the background",
        StrCat("`lightcone generation adapter drop ", flags_.collection, " ", own.from, " ", generation_, "`")};
    LC_RETURN_IF_ERROR(Propose(step));
    const AdapterPlace place{flags_.collection, own.from, generation_, ""};
    LC_RETURN_IF_ERROR(PutAdapterFile(context_, place, own.file).status());
    Done(step);
    return FindOut();
  }

  absl::Status ListAdapters() {
    v1::ListAdaptersRequest list;
    list.set_collection(flags_.collection);
    LC_ASSIGN_OR_RETURN(adapters_, client_->ListAdapters(list));
    return absl::OkStatus();
  }

  bool Reaches(uint32_t generation) const {
    return std::find(now_.reach().begin(), now_.reach().end(), generation) != now_.reach().end();
  }

  // Where its queries cannot meet what serves now, or where that is asked for.
  absl::Status FitAdapters() {
    const std::string title = "fit adapters";
    LC_RETURN_IF_ERROR(ListAdapters());
    // One direction is enough: beside the adapter that a model brings, search would prefer fitted queries to its items.
    const bool wanted = flags_.adapter == "always" || (flags_.adapter == "auto" && active_ != 0 && !Reaches(active_));
    if (active_ == 0 || active_ == generation_) return Skipped(title, "nothing older serves");
    if (!wanted) {
      return Skipped(title, flags_.adapter == "never" ? "--adapter never" : StrCat("it reaches generation ", active_));
    }
    if (active_ > generation_) return Skipped(title, StrCat("generation ", active_, " is newer"));
    const uint32_t embed = now_.has_encoder() ? flags_.embed : 0;
    const Step step{
        title,
        StrCat("fits an item adapter ", active_, " -> ", generation_, " and a query adapter ", generation_, " -> ",
               active_, " from items that both have embedded",
               embed > 0 ? StrCat(", or from up to ", embed, " stored inputs that the server embeds for it") : ""),
        "some minutes of a process of low priority; searches of what serves change nothing",
        StrCat("`lightcone generation adapter drop ", flags_.collection, " ", active_, " ", generation_, "`")};
    LC_RETURN_IF_ERROR(Propose(step));
    bool leads = HasAdapter(active_, generation_) != HasAdapter(generation_, active_);  // an adapter does
    for (const bool item : {true, false}) {
      if (flags_.adapter != "always" && HasAdapter(item ? active_ : generation_, item ? generation_ : active_))
        continue;
      v1::FitAdapterRequest request;
      request.set_collection(flags_.collection);
      request.set_from_generation(item ? active_ : generation_);
      request.set_to_generation(item ? generation_ : active_);
      request.set_embed_max(embed);
      request.set_label_field(flags_.label_field);
      LC_ASSIGN_OR_RETURN(const v1::FitAdapterResponse response, client_->FitAdapter(request));
      const auto job = WaitForJob(context_, response.job(), /*show=*/false, Forever());
      Say(StrCat("   ", item ? "items" : "queries", ": ", job.ok() ? job->result_json() : MessageOf(job.status()),
                 "\n"));
      if (!job.ok() && !leads) {
        const std::string why = MessageOf(job.status());
        const bool pairs = why.find("pairs") != std::string::npos || why.find("SampleItems") != std::string::npos;
        return Annotate(job.status(), pairs ? HowToHavePairs() : StrCat("no adapter was fitted; ", HowToGoOn()));
      }
      leads = true;
    }
    Done(step);
    return FindOut();
  }
  bool HasAdapter(uint32_t from, uint32_t to) const {
    return std::any_of(adapters_.adapters().begin(), adapters_.adapters().end(), [&](const v1::AdapterInfo& one) {
      return one.from_generation() == from && one.to_generation() == to;
    });
  }
  std::string HowToGoOn() const {
    return StrCat("go on by `lightcone rollout ", flags_.collection, " --generation ", generation_,
                  "` and the other flags of this call");
  }
  std::string HowToHavePairs() const {
    return StrCat("no adapter could be fitted. Embed a sample by generation ", generation_,
                  ": `lightcone generation adapter sample ", flags_.collection, " ", generation_, " --items ",
                  kSampleItems, " --json`, `lightcone import ", flags_.collection, " FILE --generation ", generation_,
                  " --same-content`, and ", HowToGoOn());
  }
  absl::Status Skipped(const std::string& title, const std::string& why) {
    Skip(title, why);
    return absl::OkStatus();
  }

  absl::Status Validate() {
    const std::string title = "validate";
    v1::ListProbesRequest list;
    list.set_collection(flags_.collection);
    LC_ASSIGN_OR_RETURN(const v1::ListProbesResponse probes, client_->ListProbes(list));
    if (active_ == 0 || active_ == generation_) return Skipped(title, "nothing older serves");
    if (probes.probes().empty()) {
      Say(StrCat(
          "\n== validate: no probe set says whether generation ", generation_, " finds what it should. ",
          "`lightcone generation probes put` gives one; without, nothing stands between a bad model and the users.\n"));
      return Skipped(title, "there is no probe set");
    }
    if (now_.has_validation() && now_.validation().passed() && now_.validation().outdated().empty()) {
      return Skipped(title, "it has passed");
    }
    uint64_t count = 0;
    for (const v1::ProbeSetInfo& set : probes.probes()) count += set.probes();
    const Step step{
        title,
        StrCat("ranks ", Grouped(count), " probes in the galleries of all older generations, by every way that ",
               "leads there, and in mixtures of old and new"),
        StrCat("a scan of the gallery (", Grouped(items_), " items) in a thread of low priority"), "nothing to undo"};
    LC_RETURN_IF_ERROR(Propose(step));
    v1::ValidateRequest request;
    request.set_collection(flags_.collection);
    request.set_generation(generation_);
    request.set_reference_generation(flags_.reference);
    if (flags_.tolerance) request.set_tolerance(*flags_.tolerance);
    request.set_without_calibration(flags_.no_calibration);
    LC_ASSIGN_OR_RETURN(const v1::ValidateResponse response, client_->ValidateGeneration(request));
    LC_RETURN_IF_ERROR(WaitForJob(context_, response.job(), /*show=*/false, Forever()).status());
    LC_RETURN_IF_ERROR(FindOut());
    Say(ValidationTable(now_.validation()));
    Done(step);
    if (now_.validation().passed() || flags_.force) return absl::OkStatus();
    return FailedPrecondition(StrCat("generation ", generation_, " did not pass its validation: it does not serve. ",
                                     "Better adapters, more probes, or --force with a --reason; ", HowToGoOn()));
  }

  absl::StatusOr<v1::CanaryInfo> GetCanary() {
    v1::GetCanaryRequest request;
    request.set_collection(flags_.collection);
    LC_ASSIGN_OR_RETURN(v1::GetCanaryResponse response, client_->GetCanary(request));
    return std::move(*response.mutable_canary());
  }

  // A share of the users first, where that is asked for.
  absl::Status Canary() {
    const std::string title = "canary";
    if (flags_.canary_share == 0) return Skipped(title, "--canary-share is 0");
    if (active_ == 0 || active_ == generation_) return Skipped(title, "nothing older serves");
    LC_ASSIGN_OR_RETURN(v1::CanaryInfo canary, GetCanary());
    if (canary.generation() != generation_ || canary.share() != flags_.canary_share) {
      const Step step{title,
                      StrCat("generation ", generation_, " serves ", Number(flags_.canary_share * 100),
                             " % of the searches that give a key, until it has served ", flags_.canary_searches),
                      "those searches are answered by it; every other one as before",
                      StrCat("`lightcone generation canary ", flags_.collection, " --end`")};
      LC_RETURN_IF_ERROR(Propose(step));
      v1::SetCanaryRequest request;
      request.set_collection(flags_.collection);
      request.set_generation(generation_);
      request.set_share(flags_.canary_share);
      request.set_force(flags_.force);
      request.set_reason(flags_.reason);
      LC_ASSIGN_OR_RETURN(v1::SetCanaryResponse response, client_->SetCanary(request));
      canary = std::move(*response.mutable_canary());
      Done(step);
    }
    ProgressBar bar("canary", flags_.canary_searches, "searches");
    while (canary.generation() == generation_ && canary.canary().searches() < flags_.canary_searches) {
      bar.Show(static_cast<double>(canary.canary().searches()) / flags_.canary_searches,
               static_cast<int64_t>(canary.canary().searches()));
      absl::SleepFor(absl::Milliseconds(500));
      LC_ASSIGN_OR_RETURN(canary, GetCanary());
    }
    bar.Clear();
    if (canary.generation() != generation_) return Aborted("somebody else ended the canary; nothing was activated");
    Say(CanaryTable(canary));
    const auto failing = [](const v1::CanarySide& side) {
      return side.searches() == 0 ? 0.0 : static_cast<double>(side.failures()) / static_cast<double>(side.searches());
    };
    if (failing(canary.canary()) <= failing(canary.active()) + kMoreFailures || flags_.force) return absl::OkStatus();
    return FailedPrecondition(
        StrCat(Number(failing(canary.canary()) * 100), " % of the canary's searches failed, and ",
               Number(failing(canary.active()) * 100), " % of the others: it is not activated, and ",
               "still serves its share. End it by `lightcone generation canary ", flags_.collection, " --end`"));
  }

  absl::Status Activate() {
    if (active_ == generation_) return Skipped("activate", "it serves");
    const Step step{"activate",
                    active_ == 0 ? StrCat("generation ", generation_, " serves")
                                 : StrCat("generation ", generation_, " serves in place of ", active_,
                                          ": its queries search the whole gallery from the next call on"),
                    "one write, whatever the size of the gallery",
                    active_ == 0 ? "none before it to go back to"
                                 : StrCat("`lightcone generation rollback ", flags_.collection, "`, milliseconds")};
    LC_RETURN_IF_ERROR(Propose(step));
    v1::ActivateRequest request;
    request.set_collection(flags_.collection);
    request.set_generation(generation_);
    request.set_force(flags_.force);
    request.set_reason(flags_.reason);
    if (active_ != 0) request.set_expect_active(active_);
    LC_ASSIGN_OR_RETURN(const v1::ActivateResponse response, client_->ActivateGeneration(request));
    Say(StrCat("   ", response.out_of_reach(), " items are out of its reach\n"));
    Done(step);
    active_ = generation_;
    return absl::OkStatus();
  }

  absl::Status Backfill() {
    const std::string title = "backfill";
    v1::StatusRequest ask;
    ask.set_collection(flags_.collection);
    LC_ASSIGN_OR_RETURN(v1::StatusResponse status, client_->BackfillStatus(ask));
    // A status tells of the backfill that was started last, which may be another generation's.
    const uint64_t left = status.generation() == generation_ ? status.items_total() - status.items_done()
                                                             : items_ - std::min(items_, now_.items());
    if (left == 0) return Skipped(title, "every item is embedded by it");
    if (status.generation() == generation_ &&
        (status.state() == v1::BACKFILL_STATE_RUNNING || status.state() == v1::BACKFILL_STATE_ORDERING)) {
      return Skipped(title, StrCat("it goes on, ",
                                   status.embed_rate() > 0 ? StrCat(Number(status.embed_rate()), " a second")
                                                           : std::string("by workers"),
                                   "; `lightcone backfill pause` and `start` change that"));
    }
    // One that was paused goes on as it was.
    const double rate = flags_.embed_rate.value_or(status.generation() == generation_ ? status.embed_rate() : 0);
    const bool here = now_.has_encoder() && rate > 0;
    std::string how = here ? StrCat(", ", Number(rate), " a second, by the server itself from stored inputs")
                           : ": workers lease them (`lightcone backfill lease`) and upsert vectors";
    if (!now_.has_encoder() && rate > 0) how += "; --embed-rate is for a generation whose encoder the server has";
    if (!here && flags_.p99_ms_max > 0) how += "; --p99-ms has nothing to slow down";
    const Step step{title,
                    StrCat("embeds ", Grouped(left), " items anew, what searches found and then the worst first", how),
                    here ? StrCat("about ", Number(std::max(1.0, static_cast<double>(left) / rate / 60)),
                                  " minutes of an encoder of low priority")
                         : "what embedding them costs you; it may end anywhere, also at once",
                    StrCat("`lightcone backfill pause ", flags_.collection, "`; a mixed gallery is served for ever")};
    LC_RETURN_IF_ERROR(Propose(step));
    v1::BackfillStartRequest request;
    request.set_collection(flags_.collection);
    if (flags_.embed_rate) request.set_embed_rate(now_.has_encoder() ? *flags_.embed_rate : 0);
    if (here && flags_.p99_ms_max > 0) {
      request.set_embed_rate(rate);
      request.set_p99_ms_max(flags_.p99_ms_max);
    }
    LC_ASSIGN_OR_RETURN(const v1::BackfillStartResponse response, client_->StartBackfill(request));
    Say(BackfillTable(response.status()));
    Done(step);
    return absl::OkStatus();
  }

  Context& context_;
  const RolloutFlags& flags_;
  client::Client* const client_;
  uint32_t generation_, active_ = 0;
  uint64_t items_ = 0;
  v1::GenerationInfo now_;
  v1::ListAdaptersResponse adapters_;
  OrderedJson done_ = OrderedJson::array();
};

absl::Status RunRollout(Context& context, const RolloutFlags& flags) {
  if (flags.model.empty() == (flags.generation == 0)) {
    return InvalidArgument(
        "say what to roll out: one of --model DIR (registers it) and --generation N (is registered, or a draft)");
  }
  if (flags.adapter != "auto" && flags.adapter != "always" && flags.adapter != "never") {
    return InvalidField("--adapter", StrCat("'", flags.adapter, "'"), "auto, always, never");
  }
  if (context.json && !flags.yes)
    return InvalidField("--yes", "absent", "given with --json: nobody reads the questions");
  if (!(flags.canary_share >= 0 && flags.canary_share <= 1)) {
    return InvalidField("--canary-share", Number(flags.canary_share), "0 (no canary) .. 1");
  }
  // Here and not by the server: nothing would be said of them where it embeds nothing, or only after the activation.
  constexpr double kMost = 1'000'000;
  for (const auto& [flag, value] :
       {std::pair("--embed-rate", flags.embed_rate.value_or(0)), std::pair("--p99-ms", flags.p99_ms_max)}) {
    if (!(value >= 0 && value <= kMost)) return InvalidField(flag, Number(value), "0 .. 1000000");
  }
  if (flags.force && flags.reason.empty()) return InvalidField("--reason", "absent", "why, with --force");
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  return Rollout(context, flags, client).Run();
}

}  // namespace

void AddRollout(CLI::App& root, Context& context) {
  auto flags = std::make_shared<RolloutFlags>();
  CLI::App* app = AddCommand(
      root, "rollout",
      "From a model to a generation that serves, step by step: register, adapters, validate, canary, activate, "
      "backfill");
  app->add_option("collection", flags->collection, "Collection or alias")->required();
  app->add_option("--model", flags->model, "Folder that 'lightcone train' wrote: registers it");
  app->add_option("--generation", flags->generation,
                  "A generation that is registered, or a draft: goes on from where it is");
  app->add_option("--parent", flags->parent, "With --model: the generation that it was trained to be compatible with");
  app->add_option("--adapter", flags->adapter,
                  "Fit them: auto (where nothing else leads to what serves), always, never (nor put the model's own)")
      ->capture_default_str();
  app->add_option("--embed", flags->embed,
                  "Stored inputs that the server embeds to fit adapters from, where pairs are missing")
      ->capture_default_str();
  app->add_option("--label-field", flags->label_field,
                  "Payload field with the items' classes, for the adapters' loss sup");
  app->add_option("--tolerance", flags->tolerance, "As in `generation validate`; 0.02");
  app->add_option("--reference", flags->reference, "As in `generation validate`");
  app->add_flag("--no-calibration", flags->no_calibration, "As in `generation validate`");
  app->add_option("--canary-share", flags->canary_share,
                  "Of the searches that give a key: the generation serves it before it serves all; 0: no canary");
  app->add_option("--canary-searches", flags->canary_searches, "That it has to have served before it goes on")
      ->capture_default_str();
  app->add_option("--embed-rate", flags->embed_rate,
                  "Items a second that the server embeds anew itself; 0: workers do; absent: as it was started before")
      ->check(CLI::Number);
  app->add_option("--p99-ms", flags->p99_ms_max, "Halve that rate while the p99 of searches lies above; 0: never");
  app->add_flag("--no-backfill", flags->no_backfill, "Leave the gallery as it is");
  app->add_flag("--yes", flags->yes, "Ask nothing");
  app->add_flag("--force", flags->force, "Activate it without a passing validation; needs --reason");
  app->add_option("--reason", flags->reason, "Kept in the audit log");
  app->callback([&context, flags] { context.Finish(RunRollout(context, *flags)); });
}

}  // namespace lightcone::cli
