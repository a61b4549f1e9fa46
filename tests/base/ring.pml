// SPDX-License-Identifier: Apache-2.0
// src/base/ring.h and src/base/doorbell.h as a model: two producers of three items each, one consumer that sleeps, a
// close() by the producer that ends last, two cells, and positions of three bits that wrap. Memory is sequentially
// consistent; tests/base/ring_search_test.cpp looks at weaker orders. tests/base/ring_spin.sh runs the full search.
#define CAPACITY 2
#define POSITIONS 8
#define CLOSED 8  /* a bit beside the position, in tail */
#define ITEMS 3
#define NEXT(position) ((position + 1) % POSITIONS)

byte sequence[CAPACITY];
byte value[CAPACITY];
byte tail, head;
bool asleep, signalled;

byte producing = 2;
byte accepted[2];  /* a bit for each item */
byte received[2];

inline ring() {
  if
  :: asleep ->
     atomic {  /* exchange */
       if
       :: asleep -> asleep = false; rung = true
       :: else -> rung = false
       fi
     }
     if
     :: rung -> signalled = true
     :: else
     fi
  :: else
  fi
}

proctype producer(byte me) {
  byte item, position, seen;
  bool rung;
  for (item : 0 .. ITEMS - 1) {
    position = tail;
again:
    if
    :: position >= CLOSED -> assert(false)  /* nobody closes before both have ended */
    :: else
    fi
    seen = sequence[position % CAPACITY];
    if
    :: seen == position ->
       atomic {  /* compare and exchange */
         if
         :: tail == position -> tail = NEXT(position)
         :: else -> position = tail; goto again
         fi
       }
       value[position % CAPACITY] = me * ITEMS + item + 1;
       accepted[me] = accepted[me] | (1 << item);
       sequence[position % CAPACITY] = NEXT(position);
       ring()
    :: else ->
       seen = tail;
       if
       :: seen == position  /* full: refused */
       :: else -> position = seen; goto again
       fi
    fi
  }
  atomic { producing--; seen = producing }
  if
  :: seen == 0 ->
     atomic { tail = tail | CLOSED }
     ring()
  :: else
  fi
}

#define READY (sequence[head % CAPACITY] == NEXT(head))
#define DRAINED (tail == (head | CLOSED))

proctype consumer() {
  byte got, from, item;
  byte least[2];  /* the next item of each producer is this or a later one */
  do
  :: READY ->
progress:
     got = value[head % CAPACITY] - 1;
     value[head % CAPACITY] = 0;
     from = got / ITEMS;
     item = got % ITEMS;
     assert(item >= least[from]);  /* in order, nothing twice */
     least[from] = item + 1;
     received[from] = received[from] | (1 << item);
     sequence[head % CAPACITY] = (head + CAPACITY) % POSITIONS;
     head = NEXT(head)
  :: else ->
     if
     :: DRAINED -> break
     :: else ->
        asleep = true;
        if
        :: READY
        :: else ->
           if
           :: DRAINED
           :: else -> atomic { signalled -> signalled = false }
           fi
        fi
        asleep = false
     fi
  od
  assert(received[0] == accepted[0] && received[1] == accepted[1])  /* nothing lost */
}

init {
  byte i;
  atomic {
    head = POSITIONS - 2;
    tail = head;
    for (i : 0 .. CAPACITY - 1) {
      sequence[(head + i) % CAPACITY] = (head + i) % POSITIONS
    }
    run producer(0);
    run producer(1);
    run consumer()
  }
}
