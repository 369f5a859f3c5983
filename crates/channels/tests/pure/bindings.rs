//! CR1: opaque and complete.

use holdpoint_channels::binding::{Binding, Element, MAX, decode, encode};
use holdpoint_model::ids::{Generation, QuestionId};
use proptest::prelude::*;

fn elements() -> impl Strategy<Value = Element> {
    prop_oneof![
        (any::<u8>(), any::<u16>()).prop_map(|(part, option)| Element::Option { part, option }),
        any::<u8>().prop_map(|part| Element::Select { part }),
        any::<u8>().prop_map(|part| Element::Text { part }),
        any::<u8>().prop_map(|part| Element::Other { part }),
        Just(Element::Form),
        Just(Element::Confirm),
        Just(Element::Decline),
    ]
}

fn bindings() -> impl Strategy<Value = Binding> {
    // Ours, and any other that the grammar of ids allows.
    let ids = prop_oneof!["q_[0-9a-f]{32}", "q_[0-9A-Za-z]{1,64}"];
    (ids, any::<u64>()).prop_map(|(id, generation)| Binding {
        question: QuestionId::new(id).unwrap(),
        generation: Generation(generation),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn cr1_what_is_bound_is_read_back_and_fits(binding in bindings(), element in elements()) {
        let text = encode(&binding, element);
        prop_assert!(text.len() <= MAX, "{text}");
        prop_assert!(text.is_ascii());
        prop_assert_eq!(decode(&text), Ok((binding, element)));
    }

    #[test]
    fn cr1_a_changed_character_is_another_control_or_none_of_ours(
        binding in bindings(),
        element in elements(),
        place in any::<prop::sample::Index>(),
        new in "[ -~]",
    ) {
        let text = encode(&binding, element);
        let place = place.index(text.len());
        let mut changed = text.clone();
        changed.replace_range(place..=place, &new);
        if changed != text {
            prop_assert_ne!(decode(&changed), Ok((binding, element)));
        }
    }

    #[test]
    fn cr1_no_text_makes_it_panic(text in ".{0,120}") {
        let _ = decode(&text);
    }
}

#[test]
fn cr1_a_million_bindings_of_ours_fit() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        // Weyl and a mixer: enough to spread over the ids, and the same every time.
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    };
    let mut longest = 0;
    for number in 0..1_000_000 {
        let id = format!("q_{:016x}{:016x}", next(), next());
        let binding = Binding { question: QuestionId::new(id).unwrap(), generation: Generation(next()) };
        let element = Element::Option { part: next() as u8, option: next() as u16 };
        let text = encode(&binding, element);
        longest = longest.max(text.len());
        if number % 16 == 0 {
            assert_eq!(decode(&text), Ok((binding, element)));
        }
    }
    assert!(longest <= 55, "{longest}: room is left for a revision");
}

#[test]
fn cr1_one_control_has_one_text() {
    let good = "1|01k6jhfz4dfr0t5cy4tqk7e20s|3|o0.1";
    assert!(decode(good).is_ok());
    for odd in [
        "",
        "2|01k6jhfz4dfr0t5cy4tqk7e20s|3|o0.1",
        "1|01k6jhfz4dfr0t5cy4tqk7e20s|03|o0.1",
        "1|01k6jhfz4dfr0t5cy4tqk7e20s|3|o0.01",
        "1|01k6jhfz4dfr0t5cy4tqk7e20s|3|o+0.1",
        "1|01K6JHFZ4DFR0T5CY4TQK7E20S|3|o0.1",
        "1|1k6jhfz4dfr0t5cy4tqk7e20s|3|o0.1",
        "1|01k6jhfz4dfr0t5cy4tqk7e20s|3|o0.1|",
        "1|01k6jhfz4dfr0t5cy4tqk7e20s|3|",
        "1|01k6jhfz4dfr0t5cy4tqk7e20s|3|c0",
        "1|01k6jhfz4dfr0t5cy4tqk7e20s|3|ö",
        "1|zzzzzzzzzzzzzzzzzzzzzzzzzz|3|c",
        "1|_019aa2f07c8d7e01a2b3c4d5e6f70819|3|c",
        "1|_|3|c",
    ] {
        assert!(decode(odd).is_err(), "{odd:?}");
    }
}
