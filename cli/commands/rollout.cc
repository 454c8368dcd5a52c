// lightcone rollout: leads an operator from a model to a generation that serves and a gallery that follows. Each step
// says what it does, what it costs and how to undo it. The command reads the server's state before every step, so that
// it can be stopped anywhere and run again.
#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/status.h"
#include "cli/command_table.h"
#include "cli/commands/canary.h"
#include "cli/commands/estimate.h"
#include "cli/commands/put_adapter.h"
#include "cli/commands/register_model.h"
#include "cli/json/message_json.h"
#include "cli/json/rollout_json.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

constexpr uint32_t kSampleItems = 2'000;
// How much greater a canary's share of failing searches may be than the active generation's.
constexpr double kMoreFailures = 0.01;
constexpr absl::Duration kTrialTime = absl::Minutes(2);  // time for the estimate's trial, and an encoder's start

struct RolloutFlags {
  std::string collection, model, reason;
  uint32_t generation = 0, parent = 0, reference_generation = 0, embed = kSampleItems;
  std::string adapter = "auto", label_field;
  std::optional<double> tolerance;
  bool without_calibration = false;
  std::string measure;
  std::optional<double> embed_rate;
  double p99_ms_max = 0, canary_share = 0;
  uint32_t canary_searches = 1'000;
  uint32_t trial = kTrialInputs;
  double price = 0;
  bool yes = false, force = false, no_backfill = false;
};

// Options for the wait on a step's job, which --timeout does not bound.
client::CallOptions WithoutDeadline() {
  client::CallOptions call;
  call.timeout = absl::InfiniteDuration();
  return call;
}

// What an operator reads about a step.
struct Step {
  std::string title, does, costs, undo;
};

class Rollout {
 public:
  Rollout(Context& context, const RolloutFlags& flags)
      : context_(context), flags_(flags), generation_(flags.generation) {}

  absl::Status Run() {
    LC_RETURN_IF_ERROR(ReadCollection());
    if (generation_ == 0) LC_RETURN_IF_ERROR(Register());
    LC_RETURN_IF_ERROR(ReadGeneration());
    if (now_.state() == v1::GENERATION_STATE_RETIRED) {
      return FailedPrecondition(StrCat("generation ", generation_, " is retired"));
    }
    LC_RETURN_IF_ERROR(TakeUpDraft());
    LC_RETURN_IF_ERROR(Estimate());
    LC_RETURN_IF_ERROR(PutModelAdapter());
    LC_RETURN_IF_ERROR(FitAdapters());
    LC_RETURN_IF_ERROR(Validate());
    LC_RETURN_IF_ERROR(WatchCanary());
    LC_RETURN_IF_ERROR(ValidateOutdated());
    LC_RETURN_IF_ERROR(Activate());
    if (!flags_.no_backfill) LC_RETURN_IF_ERROR(StartBackfill());
    Say(StrCat("\ngeneration ", generation_, " of '", flags_.collection,
               "' is rolled out. Watch it: `lightcone status`, `lightcone backfill status ", flags_.collection,
               "`, the console.\nBack in milliseconds: `lightcone generation rollback ", flags_.collection, "`.\n"));
    if (context_.json) {
      context_.PrintJson(
          {{"collection", flags_.collection}, {"generation", generation_}, {"estimate", estimate_}, {"steps", done_}});
    }
    return absl::OkStatus();
  }

 private:
  void Say(std::string_view text) const {
    if (!context_.json) context_.Print(text);
  }

  void RecordSkipped(const std::string& title, const std::string& why) {
    done_.push_back({{"step", title}, {"did", false}, {"why", why}});
  }
  absl::Status Skip(const std::string& title, const std::string& why) {
    Say(StrCat("\n== ", title, ": not needed, ", why, "\n"));
    RecordSkipped(title, why);
    return absl::OkStatus();
  }

  // Shows a step and asks whether to go on. CANCELLED where the operator says no.
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
        StrCat("stopped before '", step.title, "', which has not begun. To go on: `lightcone rollout ",
               flags_.collection,
               flags_.model.empty() ? StrCat(" --generation ", generation_) : StrCat(" --model ", flags_.model),
               flags_.parent > 0 ? StrCat(" --parent ", flags_.parent) : "", "` and the other flags of this call"));
  }
  void RecordDone(const Step& step) { done_.push_back({{"step", step.title}, {"did", true}}); }

  absl::Status ReadCollection() {
    v1::CollectionsGetRequest get;
    get.set_name(flags_.collection);
    LC_ASSIGN_OR_RETURN(const auto response, context_.Call(&client::Client::GetCollection, get));
    active_ = response.collection().active_generation();
    items_ = response.collection().items();
    return absl::OkStatus();
  }
  absl::Status ReadGeneration() {
    v1::GenerationsGetRequest get;
    get.set_collection(flags_.collection);
    get.set_generation(generation_);
    LC_ASSIGN_OR_RETURN(auto response, context_.Call(&client::Client::GetGeneration, get));
    now_ = std::move(*response.mutable_generation());
    return absl::OkStatus();
  }

  // Finds the newest generation of that model and parent that an earlier run registered, if it is neither retired nor
  // older than the active one. The manifest holds the checksum of the encoder, and the server keeps the manifest's
  // text.
  absl::Status FindRegistered(const v1::RegisterRequest& request) {
    LC_ASSIGN_OR_RETURN(const auto all,
                        context_.Call(&client::Client::AllGenerations, RequestOf<v1::GenerationsListRequest>(flags_)));
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
    if (generation_ != 0) return Skip(title, StrCat("generation ", generation_, " holds it already"));
    const Step step{
        title,
        StrCat("adds the model in '", flags_.model, "' to '", flags_.collection, "' as its next generation",
               flags_.parent > 0 ? StrCat(", trained to be compatible with generation ", flags_.parent) : ""),
        StrCat(Bytes(request.encoder().size()), " for its encoder; nothing serves by it yet"),
        "`lightcone generation retire`"};
    LC_RETURN_IF_ERROR(Propose(step));
    LC_ASSIGN_OR_RETURN(const auto response, context_.Call(&client::Client::RegisterGeneration, request));
    generation_ = response.generation().generation();
    Say(StrCat("   generation ", generation_, "\n"));
    RecordDone(step);
    return absl::OkStatus();
  }

  absl::Status TakeUpDraft() {
    if (now_.state() != v1::GENERATION_STATE_DRAFT) return absl::OkStatus();
    const Step step{"take up the draft",
                    StrCat("makes draft ", generation_, " of '", flags_.collection, "' a generation like others"),
                    "nothing; nothing serves by it yet", "`lightcone generation retire`"};
    LC_RETURN_IF_ERROR(Propose(step));
    v1::RegisterRequest request;
    request.set_collection(flags_.collection);
    request.set_draft(generation_);
    LC_RETURN_IF_ERROR(context_.Call(&client::Client::RegisterGeneration, request).status());
    RecordDone(step);
    return ReadGeneration();
  }

  // Says what embedding the gallery anew would take, so that the operator knows before anything begins.
  absl::Status Estimate() {
    if (flags_.no_backfill || generation_ < active_) return absl::OkStatus();
    v1::EstimateRequest request;
    request.set_collection(flags_.collection);
    request.set_generation(generation_);
    request.set_trial_max(now_.has_encoder() ? flags_.trial : 0);
    client::CallOptions call;
    call.timeout = kTrialTime;
    const auto response = context_.Call(&client::Client::EstimateBackfill, request, call);
    Say("\n== estimate of the backfill, the last step\n");
    if (!response.ok()) {  // A rollout needs none.
      Say(StrCat("   there is none: ", MessageOf(response.status()), "\n"));
      return absl::OkStatus();
    }
    const EstimateTerms terms{flags_.price, flags_.embed_rate.value_or(0)};
    Say(EstimateText(*response, terms, "   "));
    estimate_ = EstimateJson(*response, terms);
    return absl::OkStatus();
  }

  // Puts the adapter that the model's training left for the items of its old model.
  absl::Status PutModelAdapter() {
    if (flags_.model.empty() || flags_.adapter == "never") return absl::OkStatus();
    const std::string title = "put the model's adapter";
    LC_ASSIGN_OR_RETURN(client::Client * client, context_.Client());
    LC_ASSIGN_OR_RETURN(const ModelAdapter own,
                        FindModelAdapter(*client, flags_.collection, flags_.model, flags_.parent, generation_));
    if (!own.note.empty()) {
      Say(StrCat("\n== ", title, ": ", own.note, "\n"));
      RecordSkipped(title, own.note);
    }
    if (own.file.empty()) return absl::OkStatus();
    LC_RETURN_IF_ERROR(ListAdapters());
    if (HasAdapter(own.from, generation_)) return Skip(title, "the pair has one");
    const Step step{
        title, StrCat("puts the item adapter ", own.from, " -> ", generation_, " in '", own.file, "'"),
        "a little of each search of older items, until they are carried over in the background",
        StrCat("`lightcone generation adapter drop ", flags_.collection, " ", own.from, " ", generation_, "`")};
    LC_RETURN_IF_ERROR(Propose(step));
    const AdapterPlace place{flags_.collection, own.from, generation_, ""};
    LC_RETURN_IF_ERROR(PutAdapterFile(context_, place, own.file).status());
    RecordDone(step);
    return ReadGeneration();
  }

  absl::Status ListAdapters() {
    LC_ASSIGN_OR_RETURN(adapters_,
                        context_.Call(&client::Client::AllAdapters, RequestOf<v1::ListAdaptersRequest>(flags_)));
    return absl::OkStatus();
  }

  bool Reaches(uint32_t generation) const {
    return std::find(now_.reach().begin(), now_.reach().end(), generation) != now_.reach().end();
  }

  // Fits adapters where the generation's queries do not reach the active generation, or where --adapter asks for them.
  absl::Status FitAdapters() {
    const std::string title = "fit adapters";
    LC_RETURN_IF_ERROR(ListAdapters());
    // One direction is enough: beside the adapter that a model brings, search would prefer fitted queries to its items.
    const bool wanted = flags_.adapter == "always" || (flags_.adapter == "auto" && active_ != 0 && !Reaches(active_));
    if (active_ == 0 || active_ == generation_) return Skip(title, "nothing older serves");
    if (!wanted) {
      return Skip(title, flags_.adapter == "never" ? "--adapter never" : StrCat("it reaches generation ", active_));
    }
    if (active_ > generation_) return Skip(title, StrCat("generation ", active_, " is newer"));
    const uint32_t embed = now_.has_encoder() ? flags_.embed : 0;
    const Step step{
        title,
        StrCat("fits an item adapter ", active_, " -> ", generation_, " and a query adapter ", generation_, " -> ",
               active_, " from items that both have embedded",
               embed > 0 ? StrCat(", or from up to ", embed, " stored inputs that the server embeds for it") : ""),
        "some minutes of a process of low priority; searches of what serves change nothing",
        StrCat("`lightcone generation adapter drop ", flags_.collection, " ", active_, " ", generation_, "`")};
    LC_RETURN_IF_ERROR(Propose(step));
    bool leads = HasAdapter(active_, generation_) != HasAdapter(generation_, active_);  // An adapter leads there.
    for (const bool item : {true, false}) {
      if (flags_.adapter != "always" && HasAdapter(item ? active_ : generation_, item ? generation_ : active_))
        continue;
      v1::FitAdapterRequest request;
      request.set_collection(flags_.collection);
      request.set_from_generation(item ? active_ : generation_);
      request.set_to_generation(item ? generation_ : active_);
      request.set_embed_max(embed);
      request.set_label_field(flags_.label_field);
      LC_ASSIGN_OR_RETURN(const auto response, context_.Call(&client::Client::FitAdapter, request));
      const auto job = WaitForJob(context_, response.job(), /*show=*/false, WithoutDeadline());
      Say(StrCat("   ", item ? "items" : "queries", ": ", job.ok() ? job->result_json() : MessageOf(job.status()),
                 "\n"));
      if (!job.ok() && !leads) {
        return Annotate(job.status(), StrCat("no adapter was fitted. ", HowToHavePairs()));
      }
      leads = true;
    }
    RecordDone(step);
    return ReadGeneration();
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
    return StrCat("Where pairs are missing, embed a sample by generation ", generation_,
                  ": `lightcone generation adapter sample ", flags_.collection, " ", generation_, " --items ",
                  kSampleItems, " --json`, `lightcone import ", flags_.collection, " FILE --generation ", generation_,
                  " --same-content`, and ", HowToGoOn());
  }
  absl::Status Validate() {
    const std::string title = "validate";
    LC_ASSIGN_OR_RETURN(const auto probes,
                        context_.Call(&client::Client::ListProbes, RequestOf<v1::ListProbesRequest>(flags_)));
    if (active_ == 0 || active_ == generation_) return Skip(title, "nothing older serves");
    if (probes.probes().empty()) {
      Say(StrCat(
          "\n== validate: no probe set says whether generation ", generation_, " finds what it should. ",
          "`lightcone generation probes put` gives one; without, nothing stands between a bad model and the users.\n"));
      return Skip(title, "there is no probe set");
    }
    if (now_.has_validation() && now_.validation().passed() && now_.validation().outdated().empty()) {
      return Skip(title, "it has passed");
    }
    uint64_t count = 0;
    for (const v1::ProbeSetInfo& set : probes.probes()) count += set.probes();
    const Step step{
        title,
        StrCat("ranks ", Grouped(count), " probes in the galleries of all older generations, by every way that ",
               "leads there, and in mixtures of old and new"),
        StrCat("a scan of the gallery (", Grouped(items_), " items) in a thread of low priority"), "nothing to undo"};
    LC_RETURN_IF_ERROR(Propose(step));
    auto request = RequestOf<v1::ValidateRequest>(flags_);
    request.set_generation(generation_);
    LC_ASSIGN_OR_RETURN(const auto response, context_.Call(&client::Client::ValidateGeneration, request));
    LC_RETURN_IF_ERROR(WaitForJob(context_, response.job(), /*show=*/false, WithoutDeadline()).status());
    LC_RETURN_IF_ERROR(ReadGeneration());
    Say(ValidationTable(now_.validation()));
    RecordDone(step);
    if (now_.validation().passed() || flags_.force) return absl::OkStatus();
    std::string rate;
    if (now_.has_encoder()) rate = flags_.embed_rate ? Number(*flags_.embed_rate) : "RATE";
    return FailedPrecondition(StrCat("generation ", generation_, " did not pass its validation: it does not serve. ",
                                     HowToPassByBackfill(now_.validation(), flags_.collection, generation_, rate),
                                     "Better adapters, more probes, or --force with a --reason; ", HowToGoOn()));
  }
  // Items may have come while the canary served, so that what passed before it is outdated.
  absl::Status ValidateOutdated() {
    LC_RETURN_IF_ERROR(ReadGeneration());
    if (flags_.force) return absl::OkStatus();
    return now_.has_validation() && !now_.validation().outdated().empty() ? Validate() : absl::OkStatus();
  }

  absl::StatusOr<v1::CanaryInfo> GetCanary() {
    LC_ASSIGN_OR_RETURN(auto response,
                        context_.Call(&client::Client::GetCanary, RequestOf<v1::GetCanaryRequest>(flags_)));
    return std::move(*response.mutable_canary());
  }

  // Lets the generation serve a share of the searches first, where --canary-share asks for that.
  absl::Status WatchCanary() {
    const std::string title = "canary";
    if (flags_.canary_share == 0) return Skip(title, "--canary-share is 0");
    if (active_ == 0 || active_ == generation_) return Skip(title, "nothing older serves");
    LC_ASSIGN_OR_RETURN(v1::CanaryInfo canary, GetCanary());
    if (canary.generation() != generation_ || canary.share() != flags_.canary_share) {
      const Step step{title,
                      StrCat("generation ", generation_, " serves ", Number(flags_.canary_share * 100),
                             " % of the searches that give a key, until it has served ", flags_.canary_searches),
                      "those searches are answered by it; every other one as before",
                      StrCat("`lightcone generation canary ", flags_.collection, " --end`")};
      LC_RETURN_IF_ERROR(Propose(step));
      auto request = RequestOf<v1::SetCanaryRequest>(flags_);
      request.set_generation(generation_);
      request.set_share(flags_.canary_share);
      LC_ASSIGN_OR_RETURN(auto response, context_.Call(&client::Client::SetCanary, request));
      canary = std::move(*response.mutable_canary());
      RecordDone(step);
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
    if (active_ == generation_) return Skip("activate", "it serves");
    const Step step{"activate",
                    active_ == 0 ? StrCat("generation ", generation_, " serves")
                                 : StrCat("generation ", generation_, " serves in place of ", active_,
                                          ": its queries search the whole gallery from the next call on"),
                    "one write, whatever the size of the gallery",
                    active_ == 0 ? "none before it to go back to"
                                 : StrCat("`lightcone generation rollback ", flags_.collection, "`, milliseconds")};
    LC_RETURN_IF_ERROR(Propose(step));
    auto request = RequestOf<v1::ActivateRequest>(flags_);
    request.set_generation(generation_);
    if (active_ != 0) request.set_expect_active(active_);
    LC_ASSIGN_OR_RETURN(const auto response, context_.Call(&client::Client::ActivateGeneration, request));
    Say(StrCat("   ", response.out_of_reach(), " items are out of its reach\n"));
    RecordDone(step);
    active_ = generation_;
    return absl::OkStatus();
  }

  absl::Status StartBackfill() {
    const std::string title = "backfill";
    LC_ASSIGN_OR_RETURN(const auto status,
                        context_.Call(&client::Client::BackfillStatus, RequestOf<v1::StatusRequest>(flags_)));
    // The status is of the backfill that was started last, which may be another generation's.
    const uint64_t left = status.generation() == generation_ ? status.items_total() - status.items_done()
                                                             : items_ - std::min(items_, now_.items());
    if (left == 0) return Skip(title, "every item is embedded by it");
    if (status.generation() == generation_ &&
        (status.state() == v1::BACKFILL_STATE_RUNNING || status.state() == v1::BACKFILL_STATE_ORDERING)) {
      return Skip(title, StrCat("it goes on, ",
                                status.embed_rate() > 0 ? StrCat(Number(status.embed_rate()), " a second")
                                                        : std::string("by workers"),
                                "; `lightcone backfill pause` and `start` change that"));
    }
    // A paused backfill goes on at its rate.
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
    LC_ASSIGN_OR_RETURN(const auto response, context_.Call(&client::Client::StartBackfill, request));
    Say(BackfillTable(response.status()));
    RecordDone(step);
    return absl::OkStatus();
  }

  Context& context_;
  const RolloutFlags& flags_;
  uint32_t generation_, active_ = 0;
  uint64_t items_ = 0;
  v1::GenerationInfo now_;
  v1::ListAdaptersResponse adapters_;
  OrderedJson estimate_, done_ = OrderedJson::array();
};

absl::Status RunRollout(Context& context, const RolloutFlags& flags) {
  if (flags.model.empty() == (flags.generation == 0)) {
    return InvalidArgument("one of --model DIR and --generation N (registered, or a draft) must say what to roll out");
  }
  if (flags.adapter != "auto" && flags.adapter != "always" && flags.adapter != "never") {
    return InvalidField("--adapter", StrCat("'", flags.adapter, "'"), "auto, always, never");
  }
  if (context.json && !flags.yes) {
    return InvalidField("--yes", "absent", "given with --json: nobody reads the questions");
  }
  if (!(flags.canary_share >= 0 && flags.canary_share <= 1)) {
    return InvalidField("--canary-share", Number(flags.canary_share), "0 (no canary) .. 1");
  }
  // The server would check these values after the activation, or never where it embeds nothing.
  constexpr double kMost = 1'000'000;
  for (const auto& [flag, value] :
       {std::pair("--embed-rate", flags.embed_rate.value_or(0)), std::pair("--p99-ms", flags.p99_ms_max)}) {
    if (!(value >= 0 && value <= kMost)) return InvalidField(flag, Number(value), "0 .. 1000000");
  }
  LC_RETURN_IF_ERROR(CheckTerms({flags.price, flags.embed_rate.value_or(0)}, flags.trial));
  if (flags.force && flags.reason.empty()) return InvalidField("--reason", "absent", "why, with --force");
  return Rollout(context, flags).Run();
}

void AddRolloutFlags(CLI::App* app, RolloutFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("--model", flags->model, "Folder that `lightcone train` wrote; its model is registered");
  app->add_option("--generation", flags->generation,
                  "Registered generation, or a draft, to go on with from its present state");
  app->add_option("--parent", flags->parent,
                  "Generation that the model in --model was trained to be compatible with; 0: none");
  app->add_option("--adapter", flags->adapter,
                  "When to fit adapters: auto (where nothing else leads to the active generation), always, or never "
                  "(then the model's own adapter is not put either)")
      ->capture_default_str();
  app->add_option("--embed", flags->embed,
                  "Most stored inputs that the server embeds to fit adapters from, where pairs are missing")
      ->capture_default_str();
  app->add_option("--label-field", flags->label_field,
                  "Payload field with the items' classes, for the adapters' loss sup");
  app->add_option("--tolerance", flags->tolerance, "Tolerance, as in `generation validate`; default: 0.02");
  app->add_option("--measure", flags->measure, "Measure to compare by, as in `generation validate`");
  app->add_option("--reference", flags->reference_generation, "Reference generation, as in `generation validate`");
  app->add_flag("--no-calibration", flags->without_calibration, "Plain distances alone, as in `generation validate`");
  app->add_option("--canary-share", flags->canary_share,
                  "Share of the searches with a key that the generation serves before it is active; 0: no canary");
  app->add_option("--canary-searches", flags->canary_searches,
                  "Number of searches that the canary must serve before it is activated")
      ->capture_default_str();
  app->add_option("--embed-rate", flags->embed_rate,
                  "Items a second that the server itself embeds anew; 0: workers embed them. Default: the rate that "
                  "the generation's backfill has")
      ->check(CLI::Number);
  app->add_option("--p99-ms", flags->p99_ms_max,
                  "Milliseconds of the searches' p99 above which that rate is halved; 0: never");
  app->add_option("--trial", flags->trial,
                  "Most stored inputs, 0 .. 256, that the encoder embeds for the estimate, so that its rate is known")
      ->capture_default_str();
  app->add_option("--price", flags->price, "Price of a million tokens, in any currency, for the estimate");
  app->add_flag("--no-backfill", flags->no_backfill, "Leave the gallery as it is");
  app->add_flag("--yes", flags->yes, "Answer every question with yes");
  app->add_flag("--force", flags->force, "Activate the generation without a passed validation; needs --reason");
  app->add_option("--reason", flags->reason, "Reason that the audit log keeps");
}

}  // namespace

void AddRollout(CLI::App& root, Context& context) {
  AddCommands<RolloutFlags>(
      root, context,
      {{"rollout",
        "Lead a model step by step to a generation that serves: register, adapters, validate, canary, activate, "
        "backfill",
        &RunRollout, &AddRolloutFlags}});
}

}  // namespace lightcone::cli
