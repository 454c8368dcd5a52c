#include "tests/system/power_oracle.h"

#include <sstream>
#include <utility>

namespace lightcone {

void ApplyCall(const PowerCall& call, PowerState* state) {
  if (call.action == PowerAction::kDeleteByFilter) {
    std::erase_if(*state, [&call](const auto& one) { return one.second.payload % kPowerGroups == call.version; });
    return;
  }
  for (const uint64_t id : call.items) {
    PowerItem& item = (*state)[id];
    switch (call.action) {
      case PowerAction::kUpsert:
      case PowerAction::kUpsertWithTtl:
        item = {.version = call.version,
                .payload = call.version,
                .patch = 0,
                .embedded = false,
                .expires = call.action == PowerAction::kUpsertWithTtl};
        break;
      case PowerAction::kKeepPayload:
        item.version = call.version;
        item.embedded = false;
        break;
      case PowerAction::kEmbed:
        item.embedded = true;
        break;
      case PowerAction::kChangePayload:
        item.patch = call.version;
        break;
      case PowerAction::kDelete:
      case PowerAction::kDeleteByFilter:
        state->erase(id);
        break;
    }
  }
}

std::string NoteOfCall(const PowerCall& call) {
  std::ostringstream note;
  note << "call " << call.number << ' ' << call.writer << ' ' << static_cast<char>(call.action) << ' ' << call.durable
       << ' ' << call.version;
  for (const uint64_t item : call.items) note << ' ' << item;
  return note.str();
}

std::string NoteOfEvent(uint64_t number, const std::string& what, const std::string& argument) {
  return "event " + std::to_string(number) + " " + what + " " + argument;
}

std::string NoteOfDone(uint64_t number) { return "done " + std::to_string(number); }

std::string PowerOracle::Read(const std::string& note) {
  std::istringstream words(note);
  std::string kind;
  uint64_t number = 0;
  words >> kind >> number;
  if (kind == "done" && words) return End(number);
  if (kind == "event") {
    Event event;
    event.number = number;
    words >> event.what >> event.argument;
    return words ? BeginEvent(std::move(event)) : "a note that cannot be read: " + note;
  }
  PowerCall call;
  call.number = number;
  char action = 0;
  words >> call.writer >> action >> call.durable >> call.version;
  if (kind != "call" || !words || call.writer < 0 || call.writer >= kPowerWriters) {
    return "a note that cannot be read: " + note;
  }
  call.action = static_cast<PowerAction>(action);
  for (uint64_t item = 0; words >> item;) call.items.push_back(item);
  if (writers_[static_cast<size_t>(call.writer)].pending) return "a second call of one writer: " + note;
  Begin(call);
  return "";
}

void PowerOracle::Begin(const PowerCall& call) {
  const auto number = static_cast<size_t>(call.writer);
  if (call.durable) {
    std::vector<uint64_t>& covered = covered_[call.number];
    for (const Writer& one : writers_) covered.push_back(one.Acknowledged());
  }
  Writer& writer = writers_[number];
  writer.open.push_back(call);
  writer.pending = true;
  ApplyCall(call, &writer.newest);
  if (event_.what == "snap") snapshots_[event_.argument].states[number].push_back(writer.newest);
}

std::string PowerOracle::BeginEvent(Event event) {
  if (event_.number != 0) return "a second event under way: " + event.what;
  event_ = std::move(event);
  const std::string& name = event_.argument;
  if (event_.what == "snap") {
    Copy copy;
    copy.active = active_;
    for (const Writer& writer : writers_) {
      PowerState acknowledged = writer.durable;
      for (size_t i = 0; i + (writer.pending ? 1 : 0) < writer.open.size(); ++i) {
        ApplyCall(writer.open[i], &acknowledged);
      }
      std::vector<PowerState>& states = copy.states.emplace_back();
      states.push_back(std::move(acknowledged));
      if (writer.pending) states.push_back(writer.newest);
    }
    snapshots_[name] = std::move(copy);
  } else if (event_.what == "unsnap" || event_.what == "restore" || event_.what == "bring") {
    const auto found = snapshots_.find(name);
    if (found == snapshots_.end()) return "no snapshot " + name;
    if (event_.what == "unsnap") found->second.removed = true;
    Copy copy = found->second;
    copy.whole = copy.removed = false;
    if (event_.what == "restore") restored_[name] = std::move(copy);
    if (event_.what == "bring") {
      if (brought_) return "a second collection beside the original";
      brought_ = std::move(copy);
    }
  } else if (event_.what == "forget") {
    restored_[name].removed = true;
  } else if (event_.what == "drop") {
    if (!brought_) return "no collection beside the original";
    brought_->removed = true;
  }
  return "";
}

std::string PowerOracle::End(uint64_t number) {
  if (event_.number == number && number != 0) {
    const Event event = std::exchange(event_, Event());
    ++acknowledged_[event.what];
    if (event.what == "setup") setups_ = std::stoi(event.argument);
    if (event.what == "activate") active_ = static_cast<uint32_t>(std::stoul(event.argument));
    if (event.what == "snap") snapshots_[event.argument].whole = true;
    if (event.what == "restore") restored_[event.argument].whole = true;
    if (event.what == "unsnap") snapshots_.erase(event.argument);
    if (event.what == "forget") restored_.erase(event.argument);
    if (event.what == "bring") brought_->whole = true;
    if (event.what == "drop") brought_.reset();
    return "";
  }
  for (Writer& writer : writers_) {
    if (!writer.pending || writer.open.back().number != number) continue;
    writer.pending = false;
    const PowerCall call = writer.open.back();
    EndCall(call);
    return "";
  }
  return "the end of what has not begun: " + std::to_string(number);
}

void PowerOracle::EndCall(const PowerCall& call) {
  ++acknowledged_[std::string(1, static_cast<char>(call.action))];
  if (!call.durable) return;
  const std::vector<uint64_t> covered = covered_[call.number];
  covered_.erase(call.number);
  for (size_t i = 0; i < writers_.size(); ++i) MakeDurable(&writers_[i], covered[i]);
  Writer& own = writers_[static_cast<size_t>(call.writer)];
  MakeDurable(&own, own.Acknowledged());
}

void PowerOracle::MakeDurable(Writer* writer, uint64_t calls) {
  for (; writer->calls < calls; ++writer->calls) {
    ApplyCall(writer->open.front(), &writer->durable);
    writer->open.pop_front();
  }
}

void PowerOracle::KeepAcknowledged() {
  for (Writer& writer : writers_) MakeDurable(&writer, writer.Acknowledged());
}

std::vector<PowerState> PowerOracle::States(int writer) const {
  const Writer& one = writers_[static_cast<size_t>(writer)];
  std::vector<PowerState> states = {one.durable};
  for (const PowerCall& call : one.open) {
    PowerState next = states.back();
    ApplyCall(call, &next);
    states.push_back(std::move(next));
  }
  return states;
}

std::set<uint32_t> PowerOracle::Actives() const {
  std::set<uint32_t> out = {active_};
  if (event_.what == "activate") out.insert(static_cast<uint32_t>(std::stoul(event_.argument)));
  return out;
}

void PowerOracle::Settle(const Seen& seen) {
  for (size_t i = 0; i < writers_.size(); ++i) {
    Writer& writer = writers_[i];
    MakeDurable(&writer, writer.calls + seen.calls[i]);
    writer.newest = writer.durable;
    writer.open.clear();
    writer.pending = false;
  }
  covered_.clear();
  event_ = Event();
  setups_ = seen.setups;
  active_ = seen.active;
  const auto settle = [](std::map<std::string, Copy>* copies, const std::set<std::string>& names) {
    std::erase_if(*copies, [&names](const auto& one) { return !names.contains(one.first); });
    for (auto& [name, copy] : *copies) {
      copy.whole = true;
      copy.removed = false;
    }
  };
  settle(&snapshots_, seen.snapshots);
  settle(&restored_, seen.restored);
  if (!seen.brought) brought_.reset();
  if (brought_) {
    brought_->whole = true;
    brought_->removed = false;
  }
}

}  // namespace lightcone
