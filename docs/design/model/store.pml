// SPDX-License-Identifier: Apache-2.0
//
// The store's protocol: reserve, commit, lease, release, close_input, and who waits for what.
// README.md beside this file says what is modelled and how to run it.
//
// A step of the model is one `d_step` and holds exactly one operation on a shared atomic
// (`write_cursor`, an `open_batch`, a `committed`), or one change of a wait list. Everything
// between two steps is open to every other process. Some things that nobody can tell apart are
// merged into one step, to keep the search small:
//   - taking the lock goes with the first operation under it, giving it back with the last one;
//   - list changes and permits, which only the lock's owner makes, go with the last operation;
//   - consuming a permit, which only its holder does, goes with the first load of the next try;
//   - a critical section that finds the list empty is one step, since it has no effect.
// Consumers lease only under the lock, so a refused first try leaves no trace: it is left out,
// and only the second one, in the critical section that registers, is modelled.
//
// Steps are sequentially consistent. The weaker orders of the code are argued there, and checked
// with mutants under TSan, not here.

#ifndef BATCH_SIZE
#define BATCH_SIZE 1
#endif
#ifndef NUM_BUFFERS
#define NUM_BUFFERS 2
#endif
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef CONSUMERS
#define CONSUMERS 2     // consumer 0 keeps its lease while it waits for the next batch
#endif
#ifndef SAMPLES
#define SAMPLES 4       // in total; dealt out evenly, the first producers get one more
#endif
#ifndef CANCEL
#define CANCEL 0        // how many waits are cancelled at most
#endif
#ifndef PAUSE
#define PAUSE 1         // 1: a consumer may stop sampling after any batch, until close_input
#endif
// CLOSE: close_input comes at any point. Without it, only when nothing moves any more.
// OWN_LEASE_FAILS, OWN_LEASE_MUST_NOT_BLOCK: see the README, "A consumer that waits for itself".

// Mutants, each of which must be found; the README says what they break. Three have two halves.
#ifdef EVENT_SIZED_WAKE
#define EVENT_SIZED_RELEASE
#define EVENT_SIZED_COMPLETION
#endif
#ifdef DROP_CANCELLED_PERMIT
#define DROP_PRODUCER_PERMIT
#define DROP_CONSUMER_PERMIT
#endif
#ifdef NO_SECOND_TRY
#define NO_SECOND_TRY_TO_RESERVE
#define NO_SECOND_TRY_TO_LEASE
#endif

#define CLOSED 128
#define NONE 255
#define POSITION(c) ((c) & 127)
#define IS_CLOSED(c) ((c) >= CLOSED)
#define BUFFER(b) ((b) % NUM_BUFFERS)
#define BATCH(p) ((p) / BATCH_SIZE)
#define SLOTS (BATCH_SIZE * NUM_BUFFERS)

// Shared atomics.
byte write_cursor;                  // top bit: closed
byte open_batch[NUM_BUFFERS];
byte committed[NUM_BUFFERS];

// Under the lock.
bool locked;
byte read_batch;                    // the batch at the read position
chan producers = [PRODUCERS] of { byte };   // linked waiters, the head first
chan consumers = [CONSUMERS] of { byte };

// What a waiter's own handler sees.
#define IDLE 0
#define LINKED 1
#define PERMIT 2
byte waiter[PRODUCERS + CONSUMERS];

byte cancels_left = CANCEL;

// Ghosts: what is in a slot, who has been delivered what. No process decides by them (only
// OWN_LEASE_FAILS reads `kept`).
#define EMPTY 0
#define LEASED 254
#define RESERVED_BY(p) (1 + (p))
#define SAMPLE(p, seq) (64 + 8 * (p) + (seq))
byte slot[SLOTS];
byte delivered;
byte delivered_of[PRODUCERS];
byte kept = NONE;                   // the batch that consumer 0 keeps

// ------------------------------------------------------------------------------- Lists and permits

inline push_back(list) { list!me }

inline push_front(list)
{
    turn = len(list);
    list!me;
    do
    :: turn > 0 -> list?who; list!who; turn--
    :: else -> break
    od;
    who = 0
}

// The refused come back to the head, the new ones go to the tail.
inline link(list)
{
    if
    :: had_permit -> push_front(list)
    :: else -> push_back(list)
    fi;
    had_permit = false;
    waiter[me] = LINKED;
    locked = false
}

inline give_permits(list, count)
{
    turn = count;
    do
    :: turn > 0 && len(list) > 0 -> list?who; waiter[who] = PERMIT; turn--
    :: else -> break
    od;
    turn = 0; who = 0;
    locked = false
}

// --------------------------------------------------------------------------- What is available now

// Slots from write_cursor to the end of the last consecutively open batch. It stops counting when
// there is one for every waiter.
#define OPEN_SLOTS (ahead == 0 -> 0 : ahead * BATCH_SIZE - (cursor % BATCH_SIZE))

inline finish_wake(list, count)
{
    counting = false;
    give_permits(list, count);
    ahead = 0; cursor = 0; seen_open = false
}

#ifdef PEEK_WITHOUT_LOCK
#define CAN_PEEK true
#else
#define CAN_PEEK !locked
#endif

inline lock_and_wake_producers()
{
    if
    :: d_step { CAN_PEEK && len(producers) == 0 -> skip }
#ifdef EVENT_SIZED_RELEASE
    :: d_step {
        !locked && len(producers) > 0 ->
        give_permits(producers, (IS_CLOSED(write_cursor) -> PRODUCERS : BATCH_SIZE)) }
#else
    :: d_step {
        !locked && len(producers) > 0 ->
        locked = true; counting = true;
        cursor = write_cursor;
        if
        :: IS_CLOSED(cursor) -> finish_wake(producers, PRODUCERS)
        :: else
        fi }
       do
       :: d_step {
           counting ->
           if
           :: open_batch[BUFFER(BATCH(cursor) + ahead)] == BATCH(cursor) + ahead ->
               ahead++;
               if
               :: ahead == NUM_BUFFERS || OPEN_SLOTS >= len(producers) ->
                   finish_wake(producers, OPEN_SLOTS)
               :: else
               fi
           :: else -> finish_wake(producers, OPEN_SLOTS)
           fi }
       :: !counting -> break
       od
#endif
    fi
}

#ifdef END_NOT_COUNTED
#define IS_COMPLETE(b, c) \
    (committed[BUFFER(b)] == BATCH_SIZE || \
     (IS_CLOSED(c) && committed[BUFFER(b)] == POSITION(c) - (b) * BATCH_SIZE))
#else
#define IS_COMPLETE(b, c) (committed[BUFFER(b)] == BATCH_SIZE)
#endif

// Consecutive complete batches from the read position. After close_input everybody: what is left
// may be fewer batches than waiters, and the others must learn that the stream has ended.
inline lock_and_wake_consumers()
{
    if
    :: d_step { CAN_PEEK && len(consumers) == 0 -> skip }
#ifdef EVENT_SIZED_COMPLETION
    :: d_step {
        !locked && len(consumers) > 0 ->
        give_permits(consumers, (IS_CLOSED(write_cursor) -> CONSUMERS : 1)) }
#else
    :: d_step {
        !locked && len(consumers) > 0 ->
        locked = true; counting = true;
        cursor = write_cursor;
        if
#ifndef END_NOT_COUNTED
        :: IS_CLOSED(cursor) -> finish_wake(consumers, CONSUMERS)
#endif
        :: else
        fi }
       do
       :: d_step {
           counting && !seen_open ->
           if
           :: open_batch[BUFFER(read_batch + ahead)] == read_batch + ahead -> seen_open = true
           :: else -> finish_wake(consumers, ahead)
           fi }
       :: d_step {
           counting && seen_open ->
           seen_open = false;
           if
           :: IS_COMPLETE(read_batch + ahead, cursor) ->
               ahead++;
               if
               :: ahead == NUM_BUFFERS || ahead >= len(consumers) -> finish_wake(consumers, ahead)
               :: else
               fi
           :: else -> finish_wake(consumers, ahead)
           fi }
       :: !counting -> break
       od
#endif
    fi
}

// --------------------------------------------------------------------------------------- Producers

inline forget_try() { w = 0; room = 0; second_try = false; had_permit = false }

proctype Producer(byte me; byte quota)
{
    byte made;                      // samples committed so far
    byte w, room, taken, at;        // the try: cursor seen, slots left in its batch, taken, first
    bool second_try, holding, had_permit, completes, closed_seen;
    byte cursor, ahead, turn, who;  // the wake
    bool counting, seen_open;

attempt:
    if
    :: made == quota -> goto done
    :: d_step {                     // load write_cursor; under the lock if this is the second try
        made < quota && waiter[me] != LINKED && (!second_try || holding || !locked) ->
        had_permit = had_permit || (waiter[me] == PERMIT);
        waiter[me] = IDLE;
        if
        :: second_try -> locked = true; holding = true
        :: else
        fi;
        w = write_cursor;
        if
        :: IS_CLOSED(w) && holding -> locked = false; holding = false
        :: else
        fi }
#if CANCEL
    :: d_step { cancels_left > 0 && !locked && waiter[me] == LINKED ->
        cancels_left--;
        producers??eval(me);
        waiter[me] = IDLE }
       goto done
    :: d_step { cancels_left > 0 && waiter[me] == PERMIT ->
        cancels_left--;
        waiter[me] = IDLE }
#ifndef DROP_PRODUCER_PERMIT
       lock_and_wake_producers();
#endif
       goto done
#endif
    fi;

    if
    :: IS_CLOSED(w) -> goto done
    :: d_step {                     // load open_batch; room: 0 full, NONE stale, else what is left
        !IS_CLOSED(w) ->
        if
        :: open_batch[BUFFER(BATCH(w))] == BATCH(w) -> room = BATCH_SIZE - (w % BATCH_SIZE)
        :: open_batch[BUFFER(BATCH(w))] > BATCH(w) -> room = NONE
        :: else ->
            room = 0;
            if
            :: second_try -> link(producers); holding = false
            :: else
            fi
        fi }
    fi;

    if
    :: d_step { room == NONE -> room = 0; w = 0 } goto attempt
    :: room == 0 && second_try -> d_step { forget_try() } goto attempt      // suspended there
#ifdef NO_SECOND_TRY_TO_RESERVE
    :: d_step { room == 0 && !second_try && !locked -> link(producers); forget_try() } goto attempt
#else
    :: room == 0 && !second_try -> second_try = true; goto attempt
#endif
    :: d_step {                     // compare-and-swap write_cursor
        room != 0 && room != NONE ->
        if
        :: write_cursor == w ->
            // Producer 0 inserts as many as the batch takes, the others one at a time.
            taken = ((me == 0 && quota - made < room) -> quota - made : (me == 0 -> room : 1));
            at = w;
            write_cursor = w + taken;
            assert(open_batch[BUFFER(BATCH(at))] == BATCH(at));
            turn = 0;
            do
            :: turn < taken ->
                assert(slot[(at + turn) % SLOTS] == EMPTY);
                slot[(at + turn) % SLOTS] = RESERVED_BY(me);
                turn++
            :: else -> break
            od;
            turn = 0;
            if
            :: holding -> locked = false; holding = false
            :: else
            fi;
            forget_try()
        :: else -> room = 0; w = 0
        fi }
    fi;
    if
    :: taken == 0 -> goto attempt                                           // lost the race
    :: taken > 0
    fi;

#ifdef CLOSE_CHECK_FIRST
    closed_seen = IS_CLOSED(write_cursor);
#endif
    d_step {                        // fetch_add committed
        turn = 0;
        do
        :: turn < taken ->
            assert(slot[(at + turn) % SLOTS] == RESERVED_BY(me));
            slot[(at + turn) % SLOTS] = SAMPLE(me, made);
            made++;
            turn++
        :: else -> break
        od;
        turn = 0;
        assert(open_batch[BUFFER(BATCH(at))] == BATCH(at));
        committed[BUFFER(BATCH(at))] = committed[BUFFER(BATCH(at))] + taken;
        assert(committed[BUFFER(BATCH(at))] <= BATCH_SIZE);
        completes = (committed[BUFFER(BATCH(at))] == BATCH_SIZE);
        taken = 0; at = 0
    }
    if
    :: completes -> completes = false; closed_seen = true
#ifdef CLOSE_CHECK_FIRST
    :: !completes
#else
    :: d_step { !completes -> closed_seen = IS_CLOSED(write_cursor) }
#endif
    fi;
    if
    :: closed_seen -> closed_seen = false; lock_and_wake_consumers()
    :: !closed_seen
    fi;
    goto attempt;

done:
    atomic { forget_try(); made = 0 }       // locals of the dead only multiply states
}

// --------------------------------------------------------------------------------------- Consumers

// The caller holds the lock, and gives it back here.
inline take_lease(count)
{
    got = read_batch;
    turn = 0;
    do
    :: turn < count ->
        who = slot[(got * BATCH_SIZE + turn) % SLOTS];
        assert(who >= SAMPLE(0, 0) && who < SAMPLE(PRODUCERS, 0));
        // In order and once: this is exactly the next one of its producer.
        assert(who % 8 == delivered_of[(who - 64) / 8]);
        delivered_of[(who - 64) / 8]++;
        delivered++;
        slot[(got * BATCH_SIZE + turn) % SLOTS] = LEASED;
        turn++
    :: else -> break
    od;
    turn = 0; who = 0;
    had_permit = false;
    read_batch++;
#ifdef OWN_LEASE_FAILS
    // Now the ring waits for the lease of one who waits for the ring: tell it.
    if
    :: kept != NONE && kept + NUM_BUFFERS == read_batch && waiter[PRODUCERS] == LINKED ->
        consumers??eval(PRODUCERS);
        waiter[PRODUCERS] = PERMIT
    :: else
    fi;
#endif
    locked = false
}

inline release_clear(b)
{
    d_step {
        committed[BUFFER(b)] = 0;
        turn = 0;
        do
        :: turn < BATCH_SIZE ->
            assert(slot[(b * BATCH_SIZE + turn) % SLOTS] == LEASED
                   || (slot[(b * BATCH_SIZE + turn) % SLOTS] == EMPTY && IS_CLOSED(write_cursor)));
            slot[(b * BATCH_SIZE + turn) % SLOTS] = EMPTY;
            turn++
        :: else -> break
        od;
        turn = 0
    }
}

inline release_open(b) { d_step { open_batch[BUFFER(b)] = b + NUM_BUFFERS } }

inline release(b)
{
#ifdef ECHO_WAKE
    d_step { cursor = POSITION(write_cursor) }
    d_step { was_full = (open_batch[BUFFER(BATCH(cursor))] != BATCH(cursor)); cursor = 0 }
#endif
#ifdef RELEASE_OPENS_FIRST
    release_open(b);
    release_clear(b);
#else
    release_clear(b);
    release_open(b);
#endif
    b = NONE;
#ifdef ECHO_WAKE
    if
    :: was_full -> was_full = false; lock_and_wake_producers()
    :: !was_full
    fi
#else
    lock_and_wake_producers()
#endif
}

proctype Consumer(byte me; bool keeps)
{
    byte held = NONE, got = NONE;   // the older lease, the new one
    byte count;
    bool is_open, had_permit, ended, refused, own_lease;
    byte cursor, ahead, turn, who;  // the wake
    bool counting, seen_open, was_full;

attempt:
    if
    :: d_step {                     // lock; load open_batch
        waiter[me] != LINKED && !locked ->
        had_permit = had_permit || (waiter[me] == PERMIT);
        waiter[me] = IDLE;
        locked = true;
#ifdef LEASE_LOADS_COMMITTED_FIRST
        count = committed[BUFFER(read_batch)] }
#else
        is_open = (open_batch[BUFFER(read_batch)] == read_batch) }
#endif
#if CANCEL
    :: d_step { cancels_left > 0 && !locked && waiter[me] == LINKED ->
        cancels_left--;
        consumers??eval(me);
        waiter[me] = IDLE }
       goto pause
    :: d_step { cancels_left > 0 && waiter[me] == PERMIT ->
        cancels_left--;
        waiter[me] = IDLE }
#ifndef DROP_CONSUMER_PERMIT
       lock_and_wake_consumers();
#endif
       goto pause
#endif
    fi;

#ifdef LEASE_LOADS_COMMITTED_FIRST
    d_step {
        is_open = (open_batch[BUFFER(read_batch)] == read_batch);
        if
        :: is_open && count == BATCH_SIZE -> take_lease(count)
        :: else
        fi
    }
#else
    if
    :: d_step {                     // load committed
        is_open ->
        count = committed[BUFFER(read_batch)];
        if
        :: count == BATCH_SIZE -> take_lease(count)
        :: else
        fi }
    :: !is_open
    fi;
#endif
    if
    :: got != NONE
    :: d_step {                     // load write_cursor: has the stream ended?
        got == NONE ->
        cursor = write_cursor;
        if
        :: IS_CLOSED(cursor) && read_batch * BATCH_SIZE >= POSITION(cursor) ->
            ended = true; had_permit = false; locked = false
        :: IS_CLOSED(cursor) && read_batch * BATCH_SIZE < POSITION(cursor) && is_open &&
           count == POSITION(cursor) - read_batch * BATCH_SIZE -> take_lease(count)
        :: else ->
#ifdef OWN_LEASE_FAILS
            if
            :: held != NONE && held + NUM_BUFFERS == read_batch ->
                own_lease = true; had_permit = false; locked = false
            :: else -> link(consumers)
            fi
#elif defined(NO_SECOND_TRY_TO_LEASE)
            refused = true; locked = false
#else
            link(consumers)
#endif
        fi;
        cursor = 0 }
    fi;
    is_open = false; count = 0;

    if
    :: ended -> goto end_of_stream
#ifdef NO_SECOND_TRY_TO_LEASE
    :: d_step { refused && !locked -> refused = false; link(consumers) } goto attempt
#endif
    :: !ended && !own_lease && !refused && got == NONE -> goto attempt      // suspended there
    :: got != NONE && !keeps -> release(got)
    :: got != NONE && keeps && held == NONE
    :: own_lease || (got != NONE && keeps && held != NONE) ->
        own_lease = false;
        kept = NONE;
        release(held)
    fi;
    if
    :: got != NONE -> atomic { kept = got; held = got; got = NONE }
    :: got == NONE
    fi;

#if PAUSE
    if
    :: goto attempt
    :: goto pause
    fi;
#else
    goto attempt;
#endif

pause:
    IS_CLOSED(write_cursor);        // comes back for what is left
    goto attempt;

end_of_stream:
    assert(delivered == POSITION(write_cursor));
    if
    :: held != NONE -> release(held)
    :: held == NONE
    fi
}

// ------------------------------------------------------- close_input, and who says that it is over

// Nothing moves: nobody may be linked who could go on, and the lock is free. This is stronger than
// the absence of a deadlock, and it comes before close_input, which would wake the stranded.
inline check_nobody_is_stranded()
{
    assert(!locked);
    assert(len(producers) == 0 || open_batch[BUFFER(BATCH(write_cursor))] != BATCH(write_cursor));
    assert(len(consumers) == 0 || open_batch[BUFFER(read_batch)] != read_batch
           || committed[BUFFER(read_batch)] != BATCH_SIZE);
#ifdef OWN_LEASE_MUST_NOT_BLOCK
    assert(len(producers) == 0 || kept == NONE || waiter[PRODUCERS] != LINKED ||
           kept + NUM_BUFFERS != read_batch);
#endif
}

proctype Closer()
{
    byte turn, who;
#ifndef CLOSE
    timeout;
    check_nobody_is_stranded();
#endif
    write_cursor = write_cursor + CLOSED;
    d_step { !locked -> give_permits(producers, PRODUCERS); give_permits(consumers, CONSUMERS) }
}

#if CANCEL
// Cancelling must stop some time, or it would hide that somebody is stranded.
proctype Calm() { cancels_left = 0 }
#endif

init
{
    atomic {
        byte i;
        for (i : 0 .. NUM_BUFFERS - 1) { open_batch[i] = i }
        for (i : 0 .. PRODUCERS - 1) {
            run Producer(i, SAMPLES / PRODUCERS + (i < SAMPLES % PRODUCERS -> 1 : 0))
        }
        for (i : 0 .. CONSUMERS - 1) { run Consumer(PRODUCERS + i, i == 0) }
        run Closer();
#if CANCEL
        run Calm();
#endif
        i = 0
    }
}
