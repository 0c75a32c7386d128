//! Tables.

use super::*;

#[test]
fn a_table_with_names_is_read_split_and_standardised() {
    let place = temporary();
    let file = place.path().join("flowers, wild.csv");
    let mut lines = "size , kind,\"width, mm\"\n".to_owned();
    for row in 0..50 {
        lines += &format!("{row}, {},7\n", ["rose", "aster"][row % 2]);
    }
    write(&file, lines.as_bytes());
    let data = opened(&format!("csv:{},label=kind", text(file)), place.path());
    let description = data.train.description();
    assert_eq!(
        (description.goal, &description.classes[..]),
        (Goal::Classify, &["aster".to_owned(), "rose".to_owned()][..])
    );
    assert_eq!((data.train.len(), data.test.len(), &description.shape[..]), (40, 10, &[2][..]));
    let column = |data: &dyn Dataset, feature: usize| -> Vec<f32> {
        let value = |index| match sample(data, index).input {
            Values::F32(values) => values[feature],
            Values::U8(_) => panic!("tables are floats"),
        };
        (0..data.len()).map(value).collect()
    };
    let sizes = column(&*data.train, 0);
    let mean = sizes.iter().sum::<f32>() / 40.0;
    let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f32>() / 40.0;
    assert!(mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-5, "{mean} {variance}");
    assert_eq!(column(&*data.train, 1), [0.0; 40], "what does not vary loses its mean");
    // both parts by the training part's numbers: steps of one row are as long in either
    let all: Vec<f32> = column(&*data.train, 0).into_iter().chain(column(&*data.test, 0)).collect();
    let (least, most) = all.iter().fold((f32::MAX, f32::MIN), |(a, b), &x| (a.min(x), b.max(x)));
    let step = (most - least) / 49.0;
    for value in all {
        let row = (value - least) / step;
        assert!((row - row.round()).abs() < 1e-3, "{row}");
    }
}

#[test]
fn names_are_found_and_numbers_sorted_as_numbers() {
    let read = |text: &str| parse_csv(Path::new("t.csv"), text.as_bytes(), None).expect("a good table");
    let table = read("1,2,10\n3,4,9\n5,6,9\n");
    assert_eq!((table.len(), table.description().classes.as_slice()), (3, &["9".to_owned(), "10".to_owned()][..]));
    assert_eq!(table.labels(), [1, 0, 0]);
    let Values::F32(values) = sample(&table, 1).input else { panic!("floats") };
    assert_eq!(values, [3.0, 4.0]);
    let spelled = read("1,01\n2,1\n3,01\n4,1\n5,2\n");
    assert_eq!(spelled.description().classes, ["01", "1", "2"], "each spelling once");
    assert_eq!(spelled.labels(), [0, 1, 0, 1, 2]);
    assert_eq!(read("a,b,class\n1,2,x\n1,2,y\n1,1,x\n").len(), 3, "the first line has the names");
    assert_eq!(read("1,2,x\n1,2,y\n1,1,x\n").len(), 3, "here it has not");
}

#[test]
fn mistakes_are_told_with_their_line() {
    let refuse = |text: &str, label: Option<&str>, words: &[&str]| {
        let error = parse_csv(Path::new("t.csv"), text.as_bytes(), label).expect_err("should be refused");
        says(&error.to_string(), &["t.csv"]);
        says(&error.to_string(), words);
    };
    refuse("", None, &["empty"]);
    refuse("a,b\n", None, &["no row"]);
    refuse("1\n2\n", None, &["one column"]);
    refuse("1,2,x\n1,?,x\n", None, &["line 2: column 2 is `?`"]);
    refuse("1,?,x\n1,2,x\n", None, &["line 1: column 2 is `?`"]);
    refuse("1,2,x\n1,nan,x\n", None, &["line 2: column 2 is `nan`"]);
    refuse("1,2,x\n1,inf,x\n", None, &["`inf`"]);
    refuse("1,2,x\n1,2,\n", None, &["line 2: the class, column 3, is empty"]);
    refuse("1,a\n2,b\n3,\"a\n4,b\n5,a\n", None, &["line 3", "a quote not closed"]);
    refuse("1,2,x\n1,2\n", None, &["line: 2", "3 fields"]);
    refuse("1,2,x\n1,2,x\n", None, &["all rows are of class `x`"]);
    refuse("1,2,x\n1,2,y\n", None, &["a class of its own"]);
    let prices: String = (0..150_000).map(|row| format!("1,{}\n", row / 2)).collect();
    refuse(&prices, None, &["line 131073", "more than 65536 classes", ",label=COLUMN"]);
    refuse("1,2,0.5\n1,2,1.5\n1,2,0.5\n", None, &["`0.5` is no class"]);
    refuse("a,b,c\n1,2,x\n", Some("kind"), &["no column `kind`", "a, b, c"]);
    let place = temporary();
    write(&place.path().join("small.csv"), b"1,x\n2,y\n3,x\n4,y\n");
    says(
        &refused(&format!("csv:{}", text(place.path().join("small.csv"))), place.path()),
        &["small.csv", "too few rows"],
    );
    says(&refused("csv:/nowhere.csv", place.path()), &["/nowhere.csv"]);
}
