use super::shapes::{shapes, spread};

fn names(shape: &[(String, i64)]) -> Vec<i64> {
    shape.iter().map(|(_, value)| *value).collect()
}

#[test]
fn shapes_are_small_first_and_none_twice() {
    let values = [("M".to_owned(), vec![1, 7, 8, 9]), ("K".to_owned(), vec![1, 64])];
    let found: Vec<Vec<i64>> = shapes(&values).iter().map(|shape| names(shape)).collect();
    assert_eq!(found.first(), Some(&vec![1, 1]));
    assert!(found.contains(&vec![9, 64]) && found.contains(&vec![7, 1]) && found.contains(&vec![8, 64]), "{found:?}");
    let volumes: Vec<i64> = found.iter().map(|shape| shape.iter().product()).collect();
    assert!(volumes.is_sorted(), "{found:?}");
    let mut once = found.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), found.len());
    assert_eq!(shapes(&[]), [Vec::new()], "a kernel without dims has one shape");
}

#[test]
fn a_spread_keeps_the_ends() {
    assert_eq!(spread(vec![1, 2, 3], 5), [1, 2, 3]);
    for (count, most) in [(10, 3), (100, 12), (13, 12), (50, 2), (9, 0)] {
        let kept = spread((0..count).collect::<Vec<i32>>(), most);
        assert_eq!((kept.first(), kept.last()), (Some(&0), Some(&(count - 1))), "{count} {most}");
        assert!(kept.len() <= most.max(2) + 1, "{count} {most}: {kept:?}");
    }
}
