package nats

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

// TestMarkerIsReadFromTheLeader: a mirror that lags answers for its stream, too.
func TestMarkerIsReadFromTheLeader(t *testing.T) {
	b := newBroker(t)
	js, nc := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>", transactionSubjects + ">"}, AllowAtomicPublish: true, AllowDirect: true, Duplicates: noWindow})
	o := openOutput(t, outputConfig{offer: transactional}, outOptions(b)...)
	o.write(0, 0, 10)
	o.commit()
	// This one will not have heard of the marker.
	stream(t, js, jetstream.StreamConfig{Name: "COPY", Mirror: &jetstream.StreamSource{Name: "OUT", OptStartSeq: 13}, MirrorDirect: true})
	for end := time.Now().Add(20 * time.Second); ; publish(t, js, "out.foreign", 0, 1) {
		m, err := nc.Request("$JS.API.DIRECT.GET.OUT."+o.c.markerPlace().subject, nil, dialTimeout)
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get("Status") == "404" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the mirror does not answer")
		}
	}
	l := o.c.link
	for range 50 {
		m, at, err := l.readMarker(t.Context(), o.c.markerPlace())
		if err != nil || m == nil || at != 12 {
			t.Fatalf("marker %+v at %d: %v", m, at, err)
		}
	}
}

// TestOldMarkerFencesNobody: an older attempt cannot have taken over.
func TestOldMarkerFencesNobody(t *testing.T) {
	b := newBroker(t)
	o := tryOutput(t, outputConfig{attempt: 5}, outOptions(b)...)
	m := o.c.newMarker(1, 0)
	for attempt, kind := range map[uint64]fault.Kind{4: fault.Transient, 5: fault.Config, 6: fault.Config} {
		m.Attempt = attempt
		if err := o.c.fenced(m); fault.KindOf(err) != kind {
			t.Errorf("attempt %d: kind %v: %v", attempt, fault.KindOf(err), err)
		}
	}
	m.Attempt, m.Incarnation = 4, "another"
	wantFault(t, o.c.fenced(m), fault.Config, classFenced, "another")
}

// TestMarkerThatTheServerStandsInFor: a stream may put a message where max_age has
// removed a marker.
func TestMarkerThatTheServerStandsInFor(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := stream(t, js, jetstream.StreamConfig{
		Name: "OUT", Subjects: []string{"out.>", transactionSubjects + ">"}, AllowAtomicPublish: true, Duplicates: noWindow,
		MaxAge: time.Second, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Hour,
	})
	o := openOutput(t, outputConfig{offer: transactional}, outOptions(b)...)
	stopLooking(o)
	for end := time.Now().Add(20 * time.Second); ; {
		m, err := s.GetLastMsgForSubject(t.Context(), o.c.markerPlace().subject)
		if err == nil && m.Header.Get("Nats-Marker-Reason") != "" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the marker stays: %v", err)
		}
	}
	o.write(0, 0, 10)
	o.commit()
}

// TestMarkersAreReplicatedLikeRows: the stream of markers is not the one that a lost
// server takes away.
func TestMarkersAreReplicatedLikeRows(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	b, js := threeReplicas(t, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}, Duplicates: noWindow})
	o := openOutput(t, outputConfig{}, outOptions(b)...)
	o.write(0, 0, 10)
	o.commit()
	s, err := js.Stream(t.Context(), markerStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().Config.Replicas; n != 3 {
		t.Errorf("%d replicas", n)
	}
}

// TestExclusiveFenceOfAZombie: limits have removed every fence, the one of its
// successor, too, while it was frozen in front of putting its own there.
func TestExclusiveFenceOfAZombie(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := exclusiveStream(t, js)
	zombie := openOutput(t, outputConfig{attempt: 1}, exclusiveOptions(b)...)
	fence := zombie.c.order.fence
	o := openOutput(t, outputConfig{attempt: 2}, exclusiveOptions(b)...)
	o.commit()
	if err := s.Purge(t.Context(), jetstream.WithPurgeSubject(fenceSubjects+">")); err != nil {
		t.Fatal(err)
	}
	wantFault(t, zombie.c.replaceFence(t.Context(), zombie.c.link, 0), fault.Config, classFenced, "attempt 2")
	if zombie.c.order.fence != fence {
		t.Error("it sends rows behind its new fence")
	}
	o.write(0, 0, 10)
	o.commit()
	wantOnce(t, stored(t, js, "OUT"), 0, 10)
}

// TestMarkerThatIsAbsentForAMoment: a server that has just come back may say that it
// has no marker.
func TestMarkerThatIsAbsentForAMoment(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}, Duplicates: noWindow})
	o := openOutput(t, outputConfig{}, outOptions(b)...)
	o.c.cancel() // else its keeper looks, too
	<-o.c.kept
	s, err := js.Stream(t.Context(), markerStream)
	if err != nil {
		t.Fatal(err)
	}
	c := o.c
	m, _, err := c.link.readMarker(t.Context(), c.markerPlace())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Hour
	c.lease.now = func() time.Duration { return now }
	absent := func() {
		t.Helper()
		purge(t, s)
		wantFault(t, c.own(t.Context(), c.link), fault.Transient, "", "no marker streamd.commits.q.out")
	}
	absent()
	if _, err := c.link.writeMarker(t.Context(), c.markerPlace(), m, 0); err != nil {
		t.Fatal(err)
	}
	now += absencePatience
	if err := c.own(t.Context(), c.link); err != nil {
		t.Fatal(err)
	}
	absent() // once more for the first time
	now += absencePatience - 1
	absent()
	now++
	wantFault(t, c.own(t.Context(), c.link), fault.Config, classFenced, "somebody who has deleted the marker")
}
