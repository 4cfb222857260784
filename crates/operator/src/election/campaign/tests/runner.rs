//! Runs the scripts of a campaign.

use super::super::*;

/// A leader of the lease with this uid, and its record.
pub(super) fn leader_of(uid: &str) -> (Campaign, Record) {
    let mut campaign = Campaign::new("us".to_owned(), TIMING);
    campaign.on_answer(secs(0), secs(0), Answer::Absent, 0.0);
    let Next::Send(LeaseRequest::Create(ours)) = campaign.next(secs(0), wall(0)) else {
        panic!("a free lease is created");
    };
    let uid = Some(uid.to_owned());
    let written = Answer::Written { uid: uid.clone() };
    campaign.on_answer(secs(0), secs(0), written, 0.0);
    (campaign, Record { uid, ..ours })
}

pub(super) const TIMING: Timing = Timing {
    lease: secs(15),
    renew: secs(10),
    retry: secs(2),
};

pub(super) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn wall(seconds: u64) -> Timestamp {
    let seconds = i64::try_from(seconds).expect("a small number");
    Timestamp::from_second(1_000_000 + seconds).expect("a time")
}

/// The `number`th record of `holder`, after as many changes of the holder.
pub(super) fn record(holder: &str, number: i32) -> Record {
    Record {
        uid: None,
        holder: holder.trim_matches('-').to_owned(),
        seconds: 15,
        acquired: Some(wall(0)),
        renewed: Some(wall(u64::try_from(number).expect("positive"))),
        transitions: number,
        unreadable: String::new(),
    }
}

/// Runs `script`. `asked` lists the expected requests, each with its time and the written
/// transitions, and at the end the time until which the campaign waits.
#[track_caller]
pub(super) fn check(script: &str, asked: &str) {
    let mut campaign = Campaign::new("us".to_owned(), TIMING);
    let mut now = secs(0);
    let mut requests = Vec::new();
    let mut ours = Vec::new();
    for step in script.split(", ") {
        if let Ok(until) = step.parse() {
            now = now.max(secs(until));
            continue;
        }
        // The next request may be due later.
        let ask = loop {
            match campaign.next(now, wall(now.as_secs())) {
                Next::Wait(until) => now = until,
                Next::Send(ask) => break ask,
                Next::Lost(loss) => panic!("lost before {step}: {loss:?}"),
            }
        };
        let at = now.as_secs();
        requests.push(match &ask {
            LeaseRequest::Read => format!("{at} read"),
            LeaseRequest::Create(record) => format!("{at} create {}", record.transitions),
            LeaseRequest::Replace(record) => format!("{at} replace {}", record.transitions),
        });
        if let LeaseRequest::Create(record) | LeaseRequest::Replace(record) = ask {
            ours.push(record);
        }
        let sent = now;
        let mut answer = step;
        if let Some((seconds, slow)) = step.strip_prefix("slow ").and_then(|it| it.split_once(' '))
        {
            now += secs(seconds.parse().expect("a number"));
            answer = slow;
        }
        let answer = match answer {
            "absent" => Answer::Absent,
            "written" => Answer::Written { uid: None },
            "conflict" => Answer::Conflict,
            "failed" => Answer::Failed,
            other if other.starts_with("us#") => {
                let number: usize = other[3..].parse().expect("a number");
                Answer::Found(ours[number - 1].clone())
            }
            other => {
                let (holder, number) = other.split_once('@').expect("NAME@N");
                Answer::Found(record(holder, number.parse().expect("a number")))
            }
        };
        campaign.on_answer(sent, now, answer, 0.0);
    }
    match campaign.next(now, wall(now.as_secs())) {
        Next::Wait(until) => requests.push(format!("wait {}", until.as_secs())),
        Next::Lost(loss) => requests.push(format!("lost {loss:?}")),
        Next::Send(ask) => {
            // A time at the end of a script shows the request at that time.
            let last = script.rsplit(", ").next().unwrap_or_default();
            if last.parse::<u64>().is_ok() {
                requests.push(match ask {
                    LeaseRequest::Read => format!("{} read", now.as_secs()),
                    other => format!("{} {other:?}", now.as_secs()),
                });
            }
        }
    }
    assert_eq!(requests.join(", "), asked, "{script}");
}
