// The oracle of power cuts, on short logs.
#include "tests/system/power_oracle.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace lightcone {
namespace {

class PowerOracleTest : public testing::Test {
 protected:
  void Read(const std::string& note) { ASSERT_EQ(oracle_.Read(note), "") << note; }
  // An upsert of one item.
  PowerCall Upsert(uint64_t number, int writer, uint64_t item, bool durable) const {
    return {.number = number,
            .writer = writer,
            .action = PowerAction::kUpsert,
            .durable = durable,
            .version = number,
            .items = {item}};
  }
  void Begin(const PowerCall& call) { Read(NoteOfCall(call)); }
  void End(uint64_t number) { Read(NoteOfDone(number)); }
  void Make(const PowerCall& call) {
    Begin(call);
    End(call.number);
  }
  // Versions of an item in the states that a writer may be in; 0: it is not there.
  std::vector<uint64_t> Versions(int writer, uint64_t item) const { return VersionsIn(oracle_.States(writer), item); }
  static std::vector<uint64_t> VersionsIn(const std::vector<PowerState>& states, uint64_t item) {
    std::vector<uint64_t> versions;
    for (const PowerState& state : states) versions.push_back(state.contains(item) ? state.at(item).version : 0);
    return versions;
  }

  PowerOracle oracle_;
};

using List = std::vector<uint64_t>;

TEST_F(PowerOracleTest, ADurableCallIsThereOnceItIsAcknowledged) {
  Begin(Upsert(1, 0, 5, true));
  EXPECT_EQ(Versions(0, 5), (List{0, 1}));
  End(1);
  EXPECT_EQ(Versions(0, 5), List{1});
}

TEST_F(PowerOracleTest, OtherCallsAreThereWithALaterDurableOneOfAnyWriter) {
  Make(Upsert(1, 0, 5, false));
  Make(Upsert(2, 0, 5, false));
  EXPECT_EQ(Versions(0, 5), (List{0, 1, 2}));
  Begin(Upsert(10, 1, 1'005, true));
  Make(Upsert(3, 0, 5, false));  // after the durable call has begun
  End(10);
  EXPECT_EQ(Versions(0, 5), (List{2, 3}));
  EXPECT_EQ(Versions(1, 1'005), List{10});
}

TEST_F(PowerOracleTest, CallsDoToItemsWhatTheySay) {
  Make(Upsert(1, 0, 5, true));
  Make(Upsert(2, 0, 6, true));
  Make({.number = 3, .writer = 0, .action = PowerAction::kEmbed, .version = 3, .items = {5}});
  Make({.number = 4, .writer = 0, .action = PowerAction::kChangePayload, .version = 4, .items = {5}});
  EXPECT_EQ(oracle_.States(0).back().at(5),
            (PowerItem{.version = 1, .payload = 1, .patch = 4, .embedded = true, .expires = false}));
  Make({.number = 5, .writer = 0, .action = PowerAction::kKeepPayload, .version = 5, .items = {5}});
  EXPECT_EQ(oracle_.States(0).back().at(5), (PowerItem{.version = 5, .payload = 1, .patch = 4}));
  Make({.number = 6, .writer = 0, .action = PowerAction::kUpsertWithTtl, .version = 6, .items = {5}});
  EXPECT_EQ(oracle_.States(0).back().at(5), (PowerItem{.version = 6, .payload = 6, .expires = true}));
  Make({.number = 7, .writer = 0, .action = PowerAction::kDeleteByFilter, .version = 2});
  EXPECT_FALSE(oracle_.States(0).back().contains(6));
  Make({.number = 8, .writer = 0, .action = PowerAction::kDelete, .version = 8, .items = {5, 7}});
  EXPECT_TRUE(oracle_.States(0).back().empty());
}

TEST_F(PowerOracleTest, ASnapshotHoldsWhatWasAcknowledgedBeforeItAndNothingThatBeganAfterIt) {
  Make(Upsert(1, 0, 5, false));
  Begin(Upsert(2, 0, 5, true));
  Read(NoteOfEvent(100, "snap", "s"));
  End(2);
  Begin(Upsert(3, 0, 5, true));
  EXPECT_FALSE(oracle_.snapshots().at("s").whole);
  End(100);
  End(3);
  Make(Upsert(4, 0, 5, true));
  EXPECT_TRUE(oracle_.snapshots().at("s").whole);
  EXPECT_EQ(VersionsIn(oracle_.snapshots().at("s").states[0], 5), (List{1, 2, 3}));
  Read(NoteOfEvent(101, "unsnap", "s"));
  EXPECT_TRUE(oracle_.snapshots().at("s").removed);
  End(101);
  EXPECT_TRUE(oracle_.snapshots().empty());
}

TEST_F(PowerOracleTest, AnActivationUnderWayMayHaveHappened) {
  Read(NoteOfEvent(100, "activate", "1"));
  EXPECT_EQ(oracle_.Actives(), (std::set<uint32_t>{0, 1}));
  End(100);
  Read(NoteOfEvent(101, "activate", "2"));
  EXPECT_EQ(oracle_.Actives(), (std::set<uint32_t>{1, 2}));
  End(101);
  EXPECT_EQ(oracle_.Actives(), std::set<uint32_t>{2});
}

TEST_F(PowerOracleTest, AKillLosesNothingThatWasAcknowledged) {
  Make(Upsert(1, 0, 5, false));
  Begin(Upsert(2, 0, 5, false));
  oracle_.KeepAcknowledged();
  EXPECT_EQ(Versions(0, 5), (List{1, 2}));
}

TEST_F(PowerOracleTest, ACollectionThatIsBroughtBackHoldsItsSnapshotUntilItIsDropped) {
  Make(Upsert(1, 0, 5, true));
  Read(NoteOfEvent(100, "snap", "s"));
  End(100);
  Make(Upsert(2, 0, 5, true));
  Read(NoteOfEvent(101, "bring", "s"));
  ASSERT_TRUE(oracle_.brought().has_value());
  EXPECT_FALSE(oracle_.brought()->whole);
  End(101);
  EXPECT_TRUE(oracle_.brought()->whole);
  EXPECT_EQ(VersionsIn(oracle_.brought()->states[0], 5), List{1});
  Read(NoteOfEvent(102, "drop", "beside"));
  EXPECT_TRUE(oracle_.brought()->removed);
  End(102);
  EXPECT_FALSE(oracle_.brought().has_value());
}

TEST_F(PowerOracleTest, WhatWasFoundAfterACutIsTheTruthFromThenOn) {
  Make(Upsert(1, 0, 5, false));
  Make(Upsert(2, 0, 5, false));
  Read(NoteOfEvent(100, "snap", "s"));
  Begin(Upsert(3, 0, 5, true));
  oracle_.Settle({.calls = {1, 0}, .setups = 3, .active = 2, .snapshots = {"s"}, .restored = {}, .brought = false});
  EXPECT_EQ(Versions(0, 5), List{1});
  EXPECT_EQ(oracle_.Actives(), std::set<uint32_t>{2});
  EXPECT_TRUE(oracle_.snapshots().at("s").whole);
  Make(Upsert(4, 0, 5, true));
  EXPECT_EQ(Versions(0, 5), List{4});
}

TEST_F(PowerOracleTest, NotesThatCannotBeAreRefused) {
  for (const char* const note : {"", "done 7", "call 1 9 u 1 1", "event 1", "event 1 unsnap none", "event 1 bring none",
                                 "event 1 drop none", "what 1"}) {
    EXPECT_NE(oracle_.Read(note), "") << note;
  }
}

}  // namespace
}  // namespace lightcone
